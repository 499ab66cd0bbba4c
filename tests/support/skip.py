"""A test that cannot run here is skipped in ctest's words: exit code 77, and on stdout a line
`skipped: needs NEED: reason (Class.test)` for each. A test file ends with `skip.main()`; a test, its
setUp, setUpClass or setUpModule calls `skip.need(...)`."""
import sys
import unittest

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
(ROOT, NAMESPACES, PYTORCH, MPIRUN, CGROUP, GPU, DATA, MOUNT, DEBIAN, NETWORK, DESCRIPTORS,
 CUDA, HEADERS, SLURM, SSH, ETCD, KUBERNETES, PROGRAM) = NEEDS = (
    "root", "namespaces", "pytorch", "mpirun", "cgroup", "gpu", "data", "mount", "debian", "network",
    "descriptors", "cuda", "headers", "slurm", "ssh", "etcd", "kubernetes", "program")


def need(name, present, reason):
    """Skips the test that calls it, with the reason, unless what it needs is present."""
    if name not in NEEDS:
        raise ValueError(f"a test needs one of {', '.join(NEEDS)}; not {name!r}")
    if not present:
        raise unittest.SkipTest(f"needs {name}: {reason}")


class _Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if not reason.startswith("needs "):  # by unittest's own means: its cause is not counted
            raise ValueError(f"{test.id()} is skipped without skip.need(): {reason}")
        one_line = " ".join(reason.split())
        # On a line of its own: unittest has written an "s", or the test's name, to stderr.
        print(f"\nskipped: {one_line} ({test.id().replace('__main__.', '')})", flush=True)


class _Runner(unittest.TextTestRunner):
    resultclass = _Result


def main(argv=None):
    """Runs the tests of the program that argv selects; ends it with 77 when each of them was skipped,
    with 1 when one failed or none ran, else with 0."""
    result = unittest.main(argv=argv, testRunner=_Runner, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    if not result.passed:
        sys.exit(SKIPPED if result.skipped else 1)
    sys.exit(0)
