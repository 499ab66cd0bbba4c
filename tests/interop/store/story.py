"""What a real TCPStore client does and what it gets, as JSON lines: story.py HOST PORT libuv|plain
[KEY-PREFIX]. PORT 0: hosts PyTorch's own server first. Run by the Python that has PyTorch; store_test.py
compares the answers of PyTorch's server and of ours."""
import datetime
import json
import sys

import torch.distributed as dist

SHORT = datetime.timedelta(milliseconds=100)


def shown(value):
    if isinstance(value, bytes):
        return f"bytes {len(value)} {value[:64].hex()} {sum(value)}"
    if isinstance(value, (list, tuple)):
        return [shown(one) for one in value]
    return value


def main():
    host, port, libuv = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "libuv"
    server = None
    if port == 0:
        server = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False, use_libuv=libuv)
        port = server.port
    connect = lambda: dist.TCPStore(host, port, is_master=False, wait_for_workers=False,
                                    use_libuv=libuv, timeout=datetime.timedelta(seconds=20))
    store = connect()
    other = connect()

    def tell(name, action):
        try:
            print(json.dumps([name, shown(action())]), flush=True)
        except Exception as error:  # its kind is the answer
            print(json.dumps([name, type(error).__name__]), flush=True)

    tell("set", lambda: store.set("k", "v1"))
    tell("get", lambda: other.get("k"))
    tell("set again", lambda: (store.set("k", b"\x00\xff"), other.get("k"))[1])
    tell("add", lambda: [store.add("n", 5), other.add("n", -7), store.add("n", 0)])
    tell("get of a number", lambda: store.get("n"))
    tell("add to text", lambda: (store.set("t", "12x"), store.add("t", 1))[1])
    tell("compare_set matches", lambda: store.compare_set("k", b"\x00\xff".decode("latin1"), "b"))
    tell("compare_set of a missing key", lambda: store.compare_set("c1", "", "new"))
    tell("compare_set of a missing key, expected", lambda: store.compare_set("c2", "x", "new"))
    tell("compare_set differs", lambda: store.compare_set("c1", "old", "newer"))
    tell("check", lambda: [store.check(["k"]), store.check(["k", "none"]), store.check([])])
    tell("wait", lambda: store.wait(["k", "n"]))
    tell("wait, too long", lambda: store.wait(["none"], SHORT))
    tell("the same client goes on", lambda: store.get("n"))
    tell("get, too long", lambda: (store.set_timeout(SHORT), store.get("none"))[1])
    tell("and goes on again", lambda: store.get("n"))
    tell("wait, later", lambda: (other.set("later", "1"), store.wait(["later"]))[1])
    tell("num_keys", lambda: store.num_keys())
    tell("delete_key", lambda: [store.delete_key("later"), store.delete_key("later")])
    tell("num_keys less one", lambda: store.num_keys())
    tell("append", lambda: (store.append("a", "one"), store.append("a", "two"), other.get("a"))[2])
    tell("multi_set", lambda: (store.multi_set(["m1", "m2"], ["x", ""]),
                               other.multi_get(["m1", "m2", "a"]))[1])
    tell("multi_get of a missing key", lambda: store.multi_get(["m1", "missing"]))
    tell("after it", lambda: store.get("n"))
    tell("empty key and value", lambda: (store.set("", ""), store.get(""))[1])
    tell("queues", lambda: [store.queue_push("q", "1"), store.queue_push("q", b"\x002"),
                            store.queue_len("q"), other.queue_pop("q"), other.queue_pop("q"),
                            store.queue_len("q")])
    tell("an empty queue, no wait", lambda: store.queue_pop("q", False))
    tell("an empty queue, too long", lambda: store.queue_pop("q"))
    tell("after the queue", lambda: store.get("n"))
    tell("clone", lambda: (store.clone().set("cloned", "yes"), other.get("cloned"))[1])
    inner = dist.PrefixStore("outer", dist.PrefixStore("inner", store))
    tell("nested prefixes", lambda: (inner.set("k", "deep"), inner.get("k"), inner.add("i", 2)))
    tell("prefixes on the wire", lambda: other.get("inner/outer/k"))
    if hasattr(store, "list_keys"):
        tell("list_keys", lambda: sorted(store.list_keys()))
    if hasattr(store, "barrier"):
        tell("barrier of one", lambda: store.barrier("b1", 1, SHORT))
        tell("barrier, too long", lambda: store.barrier("b2", 2, SHORT))
    tell("after the barrier", lambda: connect().get("n"))
    limit = 8 * 1024 * 1024
    tell("8 MiB", lambda: (other.set("big", "x" * limit), connect().get("big"))[1])

    def beyond():
        extra = connect()
        extra.set_timeout(datetime.timedelta(seconds=5))
        extra.set("beyond", "x" * (limit + 1))
        return extra.get("beyond")
    tell("8 MiB and one byte", beyond)
    tell("the others live on", lambda: connect().get("n"))


main()
