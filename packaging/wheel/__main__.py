"""python -m ddprun: this process becomes ddprun."""
from ddprun import become_program

become_program()
