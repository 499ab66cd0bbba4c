"""A worker that leaves a key in the store of life 0 and fails, and looks for it in life 1. It speaks the
store's protocol itself: an import of PyTorch would take a second."""
import os
import socket
import struct
import sys

VALIDATE, SET, CHECK = b"\x00" + struct.pack("<I", 0x3C85F7CE), b"\x01", b"\x05"


def text(value):
    return struct.pack("<Q", len(value)) + value


first = not os.path.exists("begun")
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 10)
if first:
    open("begun", "w").close()
    store.sendall(VALIDATE + SET + text(b"/left behind") + text(b"here"))
store.sendall((b"" if first else VALIDATE) + CHECK + struct.pack("<Q", 1) + text(b"/left behind"))
there = store.recv(1) == b"\x00"
sys.stdout.write(f"out {os.environ['RANK']} in life {int(not first)} it is there: {there}\n")
sys.exit(3 if first else 0)
