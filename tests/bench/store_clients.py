"""store_clients.py HOST PORT PID CLIENTS ROUNDS: real PyTorch clients at one store, each a process of its
own, as workers are. Each sets its key and gets it, again and again. Prints one line of JSON: operations
(set or get) per second, the 99th percentile of a round's time, the processor time of the server (the
process PID, all its threads) and of the clients for each operation."""
import datetime
import json
import mmap
import os
import struct
import sys
import time

import torch.distributed as dist

VALUE = "v" * 64


def cpu_s(pid):
    """Seconds that the threads of a process have run."""
    tasks = f"/proc/{pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0])
               for task in os.listdir(tasks)) / 1e9


def client(number, place, rounds, ready, go, leave, results):
    store = dist.TCPStore(*place, None, False, datetime.timedelta(seconds=120), wait_for_workers=False)
    key = f"rank{number}/step"

    def once():
        begin = time.monotonic()
        store.set(key, VALUE)
        store.get(key)
        return time.monotonic() - begin

    once()  # does not count: it has connected, and the server knows the key
    os.write(ready, b"x")
    os.read(go, 1)  # all begin at once
    cpu = time.process_time()
    took = [once() for _ in range(rounds)]
    end = time.monotonic()
    cpu = time.process_time() - cpu  # of the rounds alone: to connect costs more
    size = 8 * (rounds + 2)
    results[number * size:(number + 1) * size] = struct.pack(f"{rounds + 2}d", end, cpu, *took)
    os.write(ready, b"x")
    os.read(leave, 1)  # the end of a process with PyTorch takes milliseconds: not beside the last rounds


def wait_for(ready, clients):
    """Until each has written a byte, or the reason why not has been printed by one of them."""
    here = 0
    while here < clients:
        got = len(os.read(ready, clients))
        if got == 0:
            sys.exit("store_clients: not all clients came so far")
        here += got


def main():
    host, port, server, clients, rounds = sys.argv[1], *map(int, sys.argv[2:6])
    results = mmap.mmap(-1, 8 * clients * (rounds + 2))
    (ready, is_ready), (go, let_go), (leave, let_leave) = os.pipe(), os.pipe(), os.pipe()
    children = []
    for number in range(clients):
        children.append(os.fork())
        if children[-1] == 0:
            os.close(let_go)
            os.close(let_leave)
            try:
                client(number, (host, port), rounds, is_ready, go, leave, results)
            except BaseException as error:  # whatever it was, the parent is to know
                print(f"store_clients: client {number}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
    os.close(is_ready)
    wait_for(ready, clients)
    server_s, begin = cpu_s(server), time.monotonic()
    os.close(let_go)
    wait_for(ready, clients)
    server_s = cpu_s(server) - server_s
    os.close(let_leave)
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    if failed:
        sys.exit(f"store_clients: {failed} of {clients} clients failed")
    told = struct.unpack(f"{clients * (rounds + 2)}d", results[:])
    seconds = max(told[::rounds + 2]) - begin
    clients_s = sum(told[1::rounds + 2])
    times = sorted(took for i, took in enumerate(told) if i % (rounds + 2) > 1)
    operations = 2 * clients * rounds
    print(json.dumps({"ops_per_s": operations / seconds,
                      "p99_ms": times[len(times) * 99 // 100] * 1e3,
                      "server_us_per_op": server_s / operations * 1e6,
                      "clients_us_per_op": clients_s / operations * 1e6}))


if __name__ == "__main__":
    main()
