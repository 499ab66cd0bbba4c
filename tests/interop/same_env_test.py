"""Two nodes whose PATH leads to different Pythons: their PyTorch versions are compared without an
import of it."""
import os
import sys

import interop

SCRIPT = r"""
import sys
sys.stdout.write("runs in " + sys.prefix + "\n")
"""


class SameEnvironment(interop.JobTest):
    needs_torch = False

    def venv(self, name, torch):
        """An environment around the interpreter of this test, with a PyTorch that is a version."""
        version = "python%d.%d" % sys.version_info[:2]
        home = os.path.dirname(os.path.realpath(sys.executable))
        packages = self.folder / name / "lib" / version / "site-packages" / "torch"
        packages.mkdir(parents=True)
        (packages / "version.py").write_text(
            f"from typing import Optional\n\n__version__ = '{torch}'\n"
            f"cuda: Optional[str] = '13.0'\n")
        (self.folder / name / "pyvenv.cfg").write_text(f"home = {home}\n")
        bin_folder = self.folder / name / "bin"
        bin_folder.mkdir()
        (bin_folder / "python3").symlink_to(os.path.realpath(sys.executable))
        return self.folder / name

    def start_two(self, *options):
        script = self.write("train.py", SCRIPT)
        meet = ["--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{interop.free_port()}", *options]
        nodes = []
        for name, torch in (("one", "2.13.0+cu130"), ("two", "2.12.1+cu130")):
            venv = self.venv(name, torch)
            env = interop.environment(PYTHON_EXEC=None, PATH=f"{venv / 'bin'}:{os.environ['PATH']}")
            nodes.append(self.start(*meet, script, env=env))
        return nodes

    def test_the_torch_of_each_node_is_told_and_the_job_runs(self):
        nodes = self.start_two()
        for node, name in zip(nodes, ("one", "two")):
            self.assertEnded(node)
            self.assertIn(f"runs in {self.folder / name}", node.out)
        told = [node.err for node in nodes if "same environment" in node.err]
        self.assertEqual(len(told), 1, "one node tells it")
        rows = [line.split() for line in told[0].splitlines() if line.startswith("  ")]
        self.assertEqual(rows[0], ["what", "value", "nodes"])
        self.assertEqual(len(rows), 3, told[0])
        self.assertEqual(rows[1][0], "torch")
        self.assertEqual({rows[1][1], rows[2][0]}, {"2.13.0+cu130", "2.12.1+cu130"})

    def test_another_torch_is_an_error_when_the_user_says_so(self):
        for node in self.start_two("--require-same-env"):
            self.assertEnded(node, 78)
            self.assertIn(" in torch (2.1", node.err)
            self.assertEqual(node.out, "")


if __name__ == "__main__":
    interop.main()
