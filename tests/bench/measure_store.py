"""What scripts/bench measures of stores: many clients at ours and at PyTorch's libuv server, the same
program at both by turns, and how soon PyTorch's workers have met through either."""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

PYTORCH_SERVER = """
import os, sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
print("127.0.0.1", store.port, os.getpid(), flush=True)
sys.stdin.read()
"""
# Once all ranks have imported, they begin at one instant that rank 0 names: what is timed is the meeting.
MEET = """
import os, sys, time
import torch.distributed as dist
rank, size, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1]
at = lambda name: os.path.join(folder, name)
open(at(f"ready-{rank}"), "w").close()
if rank == 0:
    while len([n for n in os.listdir(folder) if n.startswith("ready-")]) < size:
        time.sleep(0.01)
    open(at("begin.new"), "w").write(str(time.monotonic() + 0.3))
    os.rename(at("begin.new"), at("begin"))
while not os.path.exists(at("begin")):
    time.sleep(0.01)
begin = float(open(at("begin")).read())
time.sleep(max(0, begin - time.monotonic()))
dist.init_process_group("gloo")
dist.barrier()
took = time.monotonic() - begin
with open(at(f"took-{rank}"), "w") as file:
    file.write(str(took))
os._exit(0)
"""


@contextlib.contextmanager
def server(command):
    """Host, port and process of a server that says them on its first line and ends with its stdin."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
    try:
        yield process.stdout.readline().split()
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(20)
        process.stdout.close()


def server_commands(ddprun, python):
    """What starts each server; `python` None: only ours. Our agent is its worker's parent."""
    commands = {"ddprun": [ddprun, "--standalone", "--no-python", "sh", "-c",
                           "echo $MASTER_ADDR $MASTER_PORT $PPID; exec sleep 1000"]}
    if python:
        commands["torchrun"] = [python, "-c", PYTORCH_SERVER]
    return commands


def by_turns(commands, client, runs):
    """By server, what each of `runs` of `client(place)` prints as JSON; a first one is left out."""
    found = {name: [] for name in commands}
    with contextlib.ExitStack() as stack:
        places = {name: stack.enter_context(server(command)) for name, command in commands.items()}
        for turn in range(runs + 1):
            for name, place in places.items():
                done = subprocess.run(client(place), check=True, capture_output=True, text=True,
                                      timeout=300)
                if turn > 0:  # the first one warms up
                    found[name].append(json.loads(done.stdout))
    return found


def load(ddprun, python, store_load, clients, rounds, runs):
    """Runs of {"ops_per_s", "p99_ms", "first_round_s"} by server, with our own client program; `python`
    None: only ours."""
    return by_turns(server_commands(ddprun, python),
                    lambda place: [store_load, *place[:2], str(clients), str(rounds)], runs)


def pytorch_load(ddprun, python, clients, rounds, runs):
    """Runs of {"ops_per_s", "p99_ms", "server_us_per_op", "clients_us_per_op"} by server, with PyTorch's
    own client in `clients` processes (store_clients.py)."""
    program = pathlib.Path(__file__).with_name("store_clients.py")
    return by_turns(server_commands(ddprun, python),
                    lambda place: [python, "-B", program, *place, str(clients), str(rounds)], runs)


def meeting(launchers, python, workers, runs):
    """Seconds, by launcher, of the slowest rank from before init_process_group to after a barrier."""
    found = {name: [] for name in launchers}
    for _ in range(runs):
        for name, command in launchers.items():
            with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
                script = pathlib.Path(folder, "meet.py")
                script.write_text(MEET)
                subprocess.run(command + ["--standalone", "--nproc-per-node", str(workers), script,
                                          folder], check=True, timeout=180,
                               env=dict(os.environ, PYTHON_EXEC=str(python)),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                found[name].append(max(float(p.read_text())
                                       for p in pathlib.Path(folder).glob("took-*")))
    return found
