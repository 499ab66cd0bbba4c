"""The store, both ways: PyTorch's clients at our server, ours at PyTorch's; each time PyTorch's own
pair is the judge."""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import interop  # noqa: E402

CLIENT = interop.DDPRUN.parents[1] / "tests" / "client_story"
HOST = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


class Store(interop.JobTest):
    def our_server(self):
        """Host and port of the store of a job whose worker does nothing."""
        node = self.start("--standalone", "--no-python", "sh", "-c",
                          "echo $MASTER_ADDR $MASTER_PORT; exec sleep 1000")
        interop.wait_until(lambda: node.out.endswith("\n"), "the worker has begun")
        return node.out.split()

    def python(self, script, *words):
        done = subprocess.run([interop.PYTHON, HERE / script, *map(str, words)], text=True,
                              capture_output=True, timeout=interop.PATIENCE,
                              env=interop.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_operation_is_answered_as_pytorchs_own_server_answers_it(self):
        # libuv's server is the judge for both clients: the plain one knows no limits.
        theirs = list(map(json.loads, self.python("story.py", "127.0.0.1", 0, "libuv").splitlines()))
        self.assertGreater(len(theirs), 35)
        for kind in ("libuv", "plain"):
            with self.subTest(client=kind):
                said = self.python("story.py", *self.our_server(), kind)
                ours = list(map(json.loads, said.splitlines()))
                self.assertEqual(len(ours), len(theirs))
                for mine, other in zip(ours, theirs):
                    # The plain client cannot even ask for some.
                    if kind == "libuv" or mine[1] != "NotImplementedError":
                        self.assertEqual(mine, other)

    def test_sixty_four_clients_at_once_lose_nothing_though_a_third_dies_in_a_request(self):
        said = self.python("crowd.py", *self.our_server(), 64)
        self.assertEqual(said, "0 failed, sum is right: True\n")

    def test_our_client_gets_from_pytorchs_server_what_it_gets_from_ours(self):
        host = subprocess.Popen([interop.PYTHON, "-c", HOST], stdin=subprocess.PIPE, text=True,
                                stdout=subprocess.PIPE, env=interop.environment())
        self.addCleanup(host.wait, 10)
        self.addCleanup(host.stdin.close)
        self.addCleanup(host.stdout.close)
        port = host.stdout.readline().strip()
        ask = lambda *where: subprocess.run([CLIENT, *where], capture_output=True, text=True,
                                            timeout=interop.PATIENCE)
        theirs, ours = ask("127.0.0.1", port), ask(*self.our_server())
        self.assertEqual(theirs.returncode, 0, theirs.stderr)
        self.assertEqual(ours.returncode, 0, ours.stderr)
        self.assertEqual(ours.stdout.splitlines(), theirs.stdout.splitlines())
        self.assertEqual(ours.stdout.count("\n"), 31)


if __name__ == "__main__":
    interop.main()
