"""Stands in for torch.distributed.run where a program calls it by name: `python -m ddprun.torchrun` for
`python -m torch.distributed.run`, main() with the same words, and run() with what its parser makes of
them."""
import ctypes
import os
import signal
import subprocess
import sys
import threading

from ddprun import become_program, environment, program

# What ddprun does at each of them is for the job; so is the end of this process (prctl(2)).
FOR_THE_JOB = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


def main(args=None):
    """Runs the job of these words, or of sys.argv."""
    _run_job(sys.argv[1:] if args is None else list(args), environment())


def _run_job(words, env):
    """Runs a job, and returns when it has succeeded; else raises SystemExit with ddprun's exit code.
    Meanwhile the signals that ddprun handles are for the job. Where this process, or the thread that
    has called, ends before the job does, that gets SIGTERM: it saves, and ends."""
    job = subprocess.Popen([program(), *words], env=env,
                           preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0))
    before = {}
    # Python has handlers in its main thread alone.
    if threading.current_thread() is threading.main_thread():
        for number in FOR_THE_JOB:
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                before[number] = signal.signal(number, lambda one, _frame: job.send_signal(one))
    try:
        code = job.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if code != 0:
        raise SystemExit(code if code > 0 else 128 - code)


def get_args_parser():
    """torchrun's own: who fills in its options has PyTorch."""
    from torch.distributed.run import get_args_parser as theirs
    return theirs()


def run(args):
    """As main(), with a Namespace of that parser's options. What is in it counts, and not a PET_ variable,
    which the parser has read, nor a scheduler."""
    words, variables = words_of(args)
    _run_job(words, {name: value for name, value in environment().items() if name not in variables})


def words_of(args):
    """The command line that gives these options, and the variables that would give others."""
    actions = [action for action in get_args_parser()._actions  # argparse has no other list of them
               if action.option_strings and hasattr(args, action.dest)]
    variables = {f"PET_{action.dest.upper()}" for action in actions}
    # The parser takes a variable for the default of its option.
    kept = {name: os.environ.pop(name) for name in variables if name in os.environ}
    try:
        defaults = vars(get_args_parser().parse_known_args(["script"])[0])
    finally:
        os.environ.update(kept)
    words = ["--no-scheduler"]
    for action in actions:
        value = getattr(args, action.dest)
        # Without an endpoint the backend that torchrun calls static by default is none in particular.
        always = action.dest in ("nnodes", "nproc_per_node") or (
            action.dest == "rdzv_backend" and getattr(args, "rdzv_endpoint", ""))
        if value is None or not always and value == defaults.get(action.dest):
            continue
        name = next(name for name in action.option_strings if name.startswith("--"))
        if action.nargs == 0:
            words += [name] if value else []
        else:
            words.append(f"{name}={','.join(value) if isinstance(value, list) else value}")
    return [*words, args.training_script, *args.training_script_args], variables


if __name__ == "__main__":
    become_program()
