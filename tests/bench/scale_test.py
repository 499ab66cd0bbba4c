#!/usr/bin/env python3
"""That a job of many nodes stays cheap, held by what does not depend on how busy the machine is:
scale_test.py BUILD_DIR [--sanitized]. scripts/bench has the figures."""
import pathlib
import resource
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure_rendezvous  # noqa: E402

FEW, MANY = 250, 2_500
ASKED = {}


class ManyNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < MANY + 200:
            raise unittest.SkipTest(f"this machine allows only {hard} descriptors (ulimit -Hn)")
        # As a login has it: the agent that hosts the endpoint must not need more.
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        load = lambda agents, restarts: measure_rendezvous.load(
            ASKED["ddprun"], ASKED["agents_load"], agents, restarts,
            120)  # however late this machine is: nobody is lost, and beats are few
        cls.few, cls.many = load(FEW, 1), load(MANY, 2)

    def test_more_nodes_than_a_login_may_have_descriptors_are_assigned_again_and_again(self):
        self.assertEqual(len(self.many["restarts"]), 2)  # agents_load fails when one is missing

    def test_a_node_costs_the_coordinator_8_kib_at_most(self):
        if ASKED["sanitized"]:
            self.skipTest("a sanitizer has memory of its own for each allocation")
        self.assertLess(self.many["bytes_per_agent"], 8 * 1024)

    def test_what_a_node_is_told_does_not_grow_with_the_job(self):
        # A roster alone has eight bytes for every node.
        self.assertLess(self.many["median_bytes_in"], 2 * MANY)
        # The standbys are told where everybody is: three of all.
        self.assertLess(self.many["bytes_in"] / MANY, 2 * MANY)

    def test_the_time_of_the_coordinator_for_a_node_does_not_grow_with_the_job(self):
        def each(report, agents):
            return (report["meeting"]["coordinator_cpu_s"]
                    + report["restarts"][0]["coordinator_cpu_s"]) / agents
        # Ten times as many nodes: a walk over all for each of them would cost ten times as much.
        self.assertLess(each(self.many, MANY), 4 * each(self.few, FEW))


if __name__ == "__main__":
    build_dir = pathlib.Path(sys.argv.pop(1))
    ASKED = {"ddprun": str(build_dir / "bin" / "ddprun"),
             "agents_load": str(build_dir / "tests" / "agents_load"),
             "sanitized": "--sanitized" in sys.argv}
    if ASKED["sanitized"]:
        sys.argv.remove("--sanitized")
    unittest.main()
