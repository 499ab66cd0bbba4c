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
import namespaces
import skip

ASKED = {}


def main():
    """argv: --build-dir DIR [--slack S] [--factor F] [--timeouts N], as chaos has them, and unittest's
    own."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    chaos.add_common(parser)
    asked, for_unittest = parser.parse_known_args()
    ASKED.update(vars(asked), missing=namespaces.missing())
    if not ASKED["missing"]:
        namespaces.inside()
        ASKED["programs"] = chaos.find_programs(asked.build_dir)
    skip.main([sys.argv[0], "-v"] + for_unittest)


class Scenario(unittest.TestCase):
    def setUp(self):
        if ASKED["missing"]:
            need, reason = ASKED["missing"]
            skip.need(need, False, reason)

    @contextlib.contextmanager
    def job(self, elastic=False, nodes=4, nodes_min=2, **more):
        """A started job; `more` as Job's. Its logs stay when the test fails."""
        setup = faults.Setup.of(ASKED["timeouts"], nodes=nodes, nodes_min=nodes_min, elastic=elastic,
                                slack_s=ASKED["slack"], factor=ASKED["factor"])
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-scenario-"))
        computers = namespaces.Nodes(nodes, folder)
        job = None
        try:
            job = job_module.Job(setup, computers, ASKED["programs"], folder, **more)
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
        self.begins(job)
        return job.attempt()

    def begins(self, job, nodes=None):
        job.until(lambda: job.attempt(nodes) is not None, job.setup.bound_s(faults.BEGINS),
                  "the job begins")

    def recovers(self, job, before, kind, nodes=None):
        """After a fault of this kind: until all nodes train in a later attempt, once it is made good;
        or until these do, while it lasts. How long it took."""
        kind = faults.BY_NAME[kind]
        return job.until(lambda: (job.attempt(nodes) or 0) > before,
                         job.setup.bound_s(kind.went_on if nodes else kind.usual),
                         f"nodes {nodes or 'all'} train again")

    def ends_well(self, job):
        self.assertIsNone(job.finish(job.setup.bound_s(faults.ENDS)))
