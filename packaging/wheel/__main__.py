"""python -m ddprun: this process becomes ddprun."""
import os
import sys

from ddprun import environment, program

os.execve(program(), ["ddprun", *sys.argv[1:]], environment())
