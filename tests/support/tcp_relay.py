"""A way to a port on loopback that a test may cut, or look at: one process loses what others still reach, and
what was carried can be read."""
import contextlib
import socket
import threading


class TcpRelay:
    def __init__(self, port):
        self.to = ("127.0.0.1", port)
        self.lock, self.open = threading.Lock(), set()
        self.carried = bytearray()  # both ways
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):  # cut
            while True:
                near = self.listener.accept()[0]
                far = socket.create_connection(self.to)
                with self.lock:
                    self.open |= {near, far}
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self.lock:
                    self.carried += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def cut(self):
        """For good: nobody listens any more, and what is connected is reset or closed."""
        for one in (self.listener, *self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
