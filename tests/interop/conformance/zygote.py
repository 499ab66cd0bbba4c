"""Runs torchrun many times and pays for its import once: reads one JSON request per line ({"argv",
"env", "cwd", "out", "err"}), forks a child that is torchrun from there on, and answers {"pid"}; a
request {"wait": pid} is answered {"code"} (minus the signal, as subprocess has it). Run by the Python
that has PyTorch. conformance_test.py shows on some scenarios that this equals the real program."""
import json
import os
import signal
import sys
import traceback

import torch.distributed.run


def become_torchrun(request):
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for fd, path, flags in ((0, os.devnull, os.O_RDONLY), (1, request["out"], os.O_WRONLY),
                            (2, request["err"], os.O_WRONLY)):
        opened = os.open(path, flags)
        os.dup2(opened, fd)
        os.close(opened)
    sys.argv = ["torchrun", *request["argv"]]
    sys.stdin = open(0, closefd=False)
    code = 0
    try:
        code = torch.distributed.run.main() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    # Nothing of the zygote's own: its pipes are not to reach torchrun's workers.
    requests, answers = os.dup(0), os.dup(1)
    os.set_inheritable(requests, False)
    os.set_inheritable(answers, False)
    with open(requests) as lines:
        for line in lines:
            request = json.loads(line)
            if "wait" in request:
                _, status = os.waitpid(request["wait"], 0)
                answer = {"code": os.waitstatus_to_exitcode(status)}
            else:
                pid = os.fork()
                if pid == 0:
                    os.close(requests)
                    os.close(answers)
                    signal.set_wakeup_fd(-1)
                    become_torchrun(request)
                answer = {"pid": pid}
            os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":  # Python's multiprocessing imports it in workers of --run-path
    main()
    os._exit(0)  # without Python's own end, which takes long after an import of PyTorch
