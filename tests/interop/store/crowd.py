"""crowd.py HOST PORT COUNT: so many client processes at once, a third of which die in the middle of a
request; the others must get all that they wrote."""
import os
import signal
import socket
import struct
import sys

import torch.distributed as dist

host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
children = []
for i in range(count):
    pid = os.fork()
    if pid == 0:
        if i % 3 == 2:
            raw = socket.create_connection((host, port))
            raw.sendall(b"\x00" + struct.pack("<I", 0x3C85F7CE))
            raw.sendall(b"\x01" + struct.pack("<Q", 5) + b"/dea")  # a SET, cut in its key
            os.kill(os.getpid(), signal.SIGKILL)
        store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False)
        for step in range(20):
            store.set(f"{i}/{step}", f"{i * step}")
            store.add("sum", i)
            if store.get(f"{i}/{step}") != str(i * step).encode():
                os._exit(1)
        os._exit(0)
    children.append(pid)
bad = 0
for i, pid in enumerate(children):
    _, status = os.waitpid(pid, 0)
    bad += status != (signal.SIGKILL if i % 3 == 2 else 0)
store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False)
expected = 20 * sum(i for i in range(count) if i % 3 != 2)
sys.stdout.write(f"{bad} failed, sum is right: {store.add('sum', 0) == expected}\n")
