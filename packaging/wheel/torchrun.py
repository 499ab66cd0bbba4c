"""Stands in for torch.distributed.run where a program calls it by name: `python -m ddprun.torchrun` for
`python -m torch.distributed.run`, and main() with the same words."""
import signal
import subprocess
import sys
import threading

from ddprun import environment, program


def main(args=None):
    """Runs a job, and returns when it has succeeded; else raises SystemExit with ddprun's exit code.
    Meanwhile SIGTERM and SIGINT are for the job."""
    words = sys.argv[1:] if args is None else list(args)
    job = subprocess.Popen([program(), *words], env=environment())
    before = {}
    # Python has handlers in its main thread alone; elsewhere who called must end the job.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, lambda one, _frame: job.send_signal(one))
    try:
        code = job.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if code != 0:
        raise SystemExit(code if code > 0 else 128 - code)


if __name__ == "__main__":
    main()
