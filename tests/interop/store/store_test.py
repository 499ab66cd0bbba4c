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

    def test_sixty_four_clients_at_once_lose_nothing_though_a_third_is_killed_in_a_request(self):
        said = self.python("crowd.py", *self.our_server(), 64)
        self.assertEqual(said, "64 clients, 21 killed, 0 failed, sum is right: True\n")

    def ask(self, host, port):
        return self.run_job(host, port, launcher=CLIENT).out.splitlines()

    def test_our_client_gets_from_pytorchs_servers_what_it_gets_from_ours(self):
        ours = self.ask(*self.our_server())
        self.assertEqual(len(ours), 31)
        libuv, poll = (self.ask("127.0.0.1", port) for port in self.host_stores())
        self.assertEqual(ours, libuv)
        # A get of a missing key, and what came after it in PyTorch's versions, is for libuv's alone.
        known = ours.index("get, too long: refused")
        self.assertEqual(known, 20)
        self.assertEqual(poll[:known + 1], ours[:known + 1])
        self.assertEqual({line.partition(": ")[2] for line in poll[known:]}, {"refused"})


if __name__ == "__main__":
    interop.main()
