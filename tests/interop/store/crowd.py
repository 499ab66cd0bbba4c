"""crowd.py HOST PORT COUNT: so many TCPStore clients at once, each a process of its own; every third is
killed while its get waits for a key. As many sockets again as were killed die in the middle of a
request's bytes. The others must get all that they wrote."""
import os
import signal
import socket
import struct
import sys

import torch.distributed as dist

host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def connect():
    return dist.TCPStore(host, port, is_master=False, wait_for_workers=False)


def begin(action, *words):
    pid = os.fork()
    if pid == 0:
        try:
            action(*words)
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def write_and_read(store, name):
    for step in range(20):
        store.set(f"{name}/{step}", f"{name * step}")
        store.add("sum", name)
        if store.get(f"{name}/{step}") != str(name * step).encode():
            raise ValueError(f"{name}/{step}")


def client(name):
    store = connect()
    store.add("clients", 1)
    store.wait(["go"])  # all of them are connected now
    if name % 3 == 2:
        store.add("in a get", 1)
        store.get("never set")
    write_and_read(store, name)


def cut_in_a_request():
    raw = socket.create_connection((host, port))
    raw.sendall(b"\x00" + struct.pack("<I", 0x3C85F7CE))
    raw.sendall(b"\x01" + struct.pack("<Q", 5) + b"/dea")  # a SET, cut in its key
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(store, key, number):
    while store.add(key, 0) < number:
        pass


clients = [begin(client, name) for name in range(count)]
doomed = [pid for name, pid in enumerate(clients) if name % 3 == 2]
store = connect()
wait_for(store, "clients", count)
store.set("go", "")
cut = [begin(cut_in_a_request) for _ in doomed]
wait_for(store, "in a get", len(doomed))
for pid in doomed:
    os.kill(pid, signal.SIGKILL)
bad = sum(os.waitpid(pid, 0)[1] != (signal.SIGKILL if pid in doomed + cut else 0)
          for pid in clients + cut)
expected = 20 * sum(name for name in range(count) if name % 3 != 2)
sys.stdout.write(f"{store.add('clients', 0)} clients, {len(doomed)} killed, {bad} failed, "
                 f"sum is right: {store.add('sum', 0) == expected}\n")
