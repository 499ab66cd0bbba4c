"""record_session.py FILE: records what two ranks of a real PyTorch job and PyTorch's own store say to
each other while they call init_process_group("gloo") and train a few steps under DDP. A line is
`CONNECTION > HEX` (to the store) or `CONNECTION < HEX` (from it), in the order in which they passed.
tests/unit/store/session_replay_test.cc plays it to our store. Run by the Python that has PyTorch."""
import os
import selectors
import socket
import subprocess
import sys

SERVER = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""
RANK = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
dist.barrier()
os._exit(0)
"""


def main():
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline())
    listener = socket.create_server(("127.0.0.1", 0))
    ranks = [subprocess.Popen([sys.executable, "-c", RANK], env=dict(
        os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2",
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(listener.getsockname()[1]),
        TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0",
        OMP_NUM_THREADS="1")) for rank in range(2)]
    lines, connections = [], 0
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ, None)
        while any(rank.poll() is None for rank in ranks):
            for key, _ in selector.select(0.2):
                if key.data is None:
                    client, _ = listener.accept()
                    store = socket.create_connection(("127.0.0.1", port))
                    for one in (client, store):
                        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(client, selectors.EVENT_READ, (connections, ">", store))
                    selector.register(store, selectors.EVENT_READ, (connections, "<", client))
                    connections += 1
                    continue
                number, direction, other = key.data
                data = key.fileobj.recv(65536)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                lines.append(f"{number} {direction} {data.hex()}\n")
                other.sendall(data)
    server.stdin.close()
    server.wait(10)
    if any(rank.returncode for rank in ranks):
        sys.exit("a rank failed; nothing is written")
    with open(sys.argv[1], "w") as file:
        file.writelines(lines)
    print(f"{connections} connections, {len(lines)} lines")


main()
