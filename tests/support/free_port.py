"""A free port for a rendezvous endpoint, as free_port.h chooses it."""
import errno
import pathlib
import random
import socket

LOWEST = 10_000
_claims = []  # until this process ends


def _claim(port):
    """Whether this process is the one that has the port: an abstract socket of its name says so to
    the other tests."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0ddprun-test-port-{port}")
    except OSError as failed:
        claim.close()
        if failed.errno == errno.EADDRINUSE:
            return False
        raise
    _claims.append(claim)
    return True


def _is_unused(port):
    with socket.socket() as listener:
        try:
            listener.bind(("", port))
            return True
        except OSError:
            return False


def free_port():
    """A TCP port that nobody uses, of no other test while this process lives, and below those that
    the system hands out: the agents and stores of jobs beside this test get theirs from there."""
    handed_out = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    above = int(handed_out.split()[0])
    for _ in range(1000):
        port = random.randrange(LOWEST, above)
        if _claim(port) and _is_unused(port):
            return port
    raise RuntimeError("no free TCP port")
