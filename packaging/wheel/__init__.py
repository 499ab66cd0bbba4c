"""ddprun: a native elastic launcher for distributed training, with torchrun's command line."""
import importlib.metadata
import os
import sys


def program():
    """The path of the program that this package has installed."""
    for file in importlib.metadata.files("ddprun") or ():
        if file.name == "ddprun" and file.parent.name != "ddprun":
            return str(file.locate())
    raise FileNotFoundError("the package ddprun has no program: install it again with pip")


def environment():
    """Workers run under this Python, as torchrun's do, unless PYTHON_EXEC names another one."""
    return {"PYTHON_EXEC": sys.executable, **os.environ}
