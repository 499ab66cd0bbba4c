#!/usr/bin/env python3
"""That a job of many nodes stays cheap, held by what does not depend on how busy the machine is:
scale_test.py BUILD_DIR [TEST...]. scripts/bench has the figures."""
import pathlib
import resource
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import measure_rendezvous  # noqa: E402
import skip  # noqa: E402

FEW, MANY = 250, 2_500
ASKED = {}


def load(agents, restarts):
    return measure_rendezvous.load(
        ASKED["ddprun"], ASKED["agents_load"], agents, restarts,
        120,  # however late this machine is: nobody is lost, and beats are few
        measure_rendezvous.IDLE_MIN_S)  # no test is about beats, and a round of theirs takes 20 s


class ManyNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        skip.need(skip.DESCRIPTORS, hard >= MANY + 200,
                  f"this machine allows only {hard} descriptors (ulimit -Hn)")
        # As a login has it: the agent that hosts the endpoint must not need more.
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))

    def test_more_nodes_than_a_login_may_have_descriptors_are_assigned_again_and_told_no_more_than_few(self):
        many = load(MANY, 2)
        self.assertEqual(len(many["restarts"]), 2)  # agents_load fails when one is missing
        # A configuration alone has eight bytes for every node.
        self.assertLess(many["median_bytes_in"], 2 * MANY)
        # The standbys are told where everybody is: three of all.
        self.assertLess(many["bytes_in"] / MANY, 2 * MANY)

    def test_a_node_costs_the_coordinator_8_kib_at_most(self):
        self.assertLess(load(MANY, 1)["bytes_per_agent"], 8 * 1024)

    def test_the_time_of_the_coordinator_for_a_node_does_not_grow_with_the_job(self):
        def each(agents):
            report = load(agents, 1)
            return (report["meeting"]["coordinator_cpu_s"]
                    + report["restarts"][0]["coordinator_cpu_s"]) / agents
        # Ten times as many nodes: a walk over all for each of them would cost ten times as much.
        self.assertLess(each(MANY), 4 * each(FEW))


if __name__ == "__main__":
    build_dir = pathlib.Path(sys.argv.pop(1))
    ASKED = {"ddprun": str(build_dir / "bin" / "ddprun"),
             "agents_load": str(build_dir / "tests" / "agents_load")}
    skip.main()
