"""What a test of one scenario needs: a job on nodes of its own, and its logs where it fails."""
import argparse
import contextlib
import pathlib
import shutil
import sys
import tempfile
import unittest

import chaos
import faults
import job as job_module
import nodes as nodes_module

ASKED = {}


def main():
    """argv: --build-dir DIR [--slack S] [--timeouts N], as chaos has them, and unittest's own. 77
    where there are no namespaces."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--build-dir", type=pathlib.Path, required=True)
    parser.add_argument("--slack", type=float, default=faults.Setup.slack_s)
    parser.add_argument("--timeouts", type=int, default=1)
    asked, for_unittest = parser.parse_known_args()
    if nodes_module.INSIDE not in nodes_module.os.environ:
        if why := nodes_module.unavailable():
            print(f"skipped: {why}")
            sys.exit(77)
        nodes_module.inside()
    ASKED["programs"] = chaos.find_programs(asked.build_dir)
    ASKED["slack_s"] = asked.slack
    ASKED["timeouts"] = asked.timeouts
    unittest.main(argv=[sys.argv[0], "-v"] + for_unittest)


class Scenario(unittest.TestCase):
    @contextlib.contextmanager
    def job(self, elastic=False, nodes=4, nodes_min=2, **more):
        """A started job; `more` as Job's. Its logs stay when the test fails."""
        setup = faults.Setup.of(ASKED["timeouts"], nodes=nodes, nodes_min=nodes_min,
                                elastic=elastic, slack_s=ASKED["slack_s"])
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-scenario-"))
        computers = nodes_module.Nodes(nodes, folder)
        job = None
        try:
            job = job_module.Job(setup, computers, ASKED["programs"], folder,
                                 "--witness" not in ASKED["programs"]["help"], **more)
            yield job
        except BaseException as failed:
            failed.add_note(f"logs: {folder}")
            raise
        finally:
            if job:
                job.close()
            computers.close()
        shutil.rmtree(folder)

    def begin(self, job):
        """Starts all nodes; the attempt in which they train and have saved."""
        job.start_all()
        job.until(lambda: job.attempt() is not None, 4 * job.setup.slack_s, "the job begins")
        return job.attempt()

    def recovers(self, job, before, kind="node_cut", nodes=None):
        """Until these nodes (all) train in a later attempt; how long it took."""
        return job.until(lambda: (job.attempt(nodes) or 0) > before,
                         faults.bound_s(faults.BY_NAME[kind], job.setup),
                         f"nodes {nodes or 'all'} train again")

    def ends_well(self, job):
        self.assertIsNone(job.finish(4 * job.setup.slack_s))
