"""ddprun: a native elastic launcher for distributed training, with torchrun's command line."""
import importlib.metadata
import os
import pathlib
import sys


def program():
    """The path of the program that this package has installed."""
    for file in importlib.metadata.files("ddprun") or ():
        if file.name == "ddprun" and file.parent.name != "ddprun":
            # `pip install --target` puts programs beside the packages, and notes another place.
            beside = pathlib.Path(__file__).resolve().parents[1] / "bin" / "ddprun"
            for path in (pathlib.Path(file.locate()), beside):
                if path.is_file() and file.size in (None, path.stat().st_size):
                    return str(path)
    sys.exit("ddprun: the program of the Python package ddprun is not where pip has put it; install the "
             "package again")


def environment():
    """Workers run under this Python, as torchrun's do, unless PYTHON_EXEC names another one."""
    return {"PYTHON_EXEC": sys.executable, **os.environ}


def become_program():
    """This process runs the command line as ddprun itself."""
    path = program()
    os.execve(path, ["ddprun", *sys.argv[1:]], environment())
