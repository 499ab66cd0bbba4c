"""Workers that fail, each in its own way: what is reported, what is restarted, and that nothing is
left."""
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interop  # noqa: E402
import skip  # noqa: E402
from memory_group import MemoryGroup  # noqa: E402
from program import children_of, is_alive  # noqa: E402

RECORDED = r"""
import ctypes, os, sys
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    if os.environ["RANK"] != "1":
        import time
        time.sleep(60)  # ended by the launcher
    how = sys.argv[1]
    if how == "raise":
        raise ValueError("the data is gone")
    if how == "exit":
        sys.exit(7)
    if how == "segfault":
        ctypes.string_at(0)
main()
"""


class Failures(interop.JobTest):
    def run_recorded(self, how):
        script = self.write("recorded.py", RECORDED)
        error_file = self.folder / f"{how}.json"
        node = self.run_job("--standalone", "--nproc-per-node", 2, script, how,
                            env=interop.environment(TORCHELASTIC_ERROR_FILE=error_file), code=1)
        self.assertIn("rank      : 1 (local_rank: 1)", node.err)
        return node, json.loads(error_file.read_text())["message"]

    def test_a_recorded_exception_is_the_cause_with_its_stack(self):
        node, message = self.run_recorded("raise")
        self.assertEqual(message["message"], "ValueError: the data is gone")
        self.assertEqual(message["errorCode"], 1)
        self.assertIn('raise ValueError("the data is gone")', message["extraInfo"]["py_callstack"])
        self.assertIn("ValueError: the data is gone", node.err)

    def test_a_recorded_exit_keeps_its_code(self):
        node, message = self.run_recorded("exit")
        self.assertIn("exitcode  : 7 ", node.err)
        self.assertEqual(message["errorCode"], 7)

    def test_a_recorded_segfault_is_told_by_its_signal(self):
        node, message = self.run_recorded("segfault")
        self.assertIn("exitcode  : -11 ", node.err)
        self.assertIn("SIGSEGV", node.err)
        self.assertEqual(message["errorCode"], -11)
        self.assertIn("SIGSEGV", message["message"])

    def test_a_training_guides_job_of_two_nodes_leaves_the_error_and_the_logs_where_it_says(self):
        work = self.folder / "03-multi-node"
        work.mkdir()
        script = self.write("train_llm.py", r"""
import argparse, contextlib, os, pathlib
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
@contextlib.contextmanager
def rank0_first():
    if dist.get_rank() == 0:
        yield
    dist.barrier()
    if dist.get_rank() != 0:
        yield
    dist.barrier()
@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--experiment-name")
    name = parser.parse_args().experiment_name
    dist.init_process_group("gloo")
    with rank0_first():
        pathlib.Path(name).mkdir(exist_ok=True)
        print("rank", dist.get_rank(), "has", name, flush=True)
    if dist.get_rank() == 1:
        raise FileNotFoundError("no shard 1")
    dist.barrier()
main()
""")
        nodes = self.start_nodes(
            ["--nproc-per-node", 1, "--redirects", 3, "--log-dir", "../logs"],
            [script, "--experiment-name", "alpaca"], cwd=work,
            env=interop.environment(TORCHELASTIC_ERROR_FILE="../error.json"))
        for node in nodes:
            self.assertEnded(node, 1)
            self.assertEqual(node.out, "")
            self.assertIn("FileNotFoundError: no shard 1", node.err)
        message = json.loads((self.folder / "error.json").read_text())["message"]
        self.assertEqual(message["message"], "FileNotFoundError: no shard 1")
        said = [path.read_text() for path in self.folder.glob("logs/*/attempt_0/0/stdout.log")]
        self.assertEqual(sorted(said), ["rank 0 has alpaca\n", "rank 1 has alpaca\n"])

    def test_a_worker_that_the_kernel_kills_for_memory_is_the_cause_and_is_started_again(self):
        group = MemoryGroup(800 << 20)
        skip.need(skip.CGROUP, not group.why_not, group.why_not)
        self.addCleanup(group.remove)
        script = self.write("hungry.py", r"""
import os, sys, time
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == sys.argv[1]:
        sys.stdout.write(f"rank {os.environ['RANK']} done\n")
        return
    hog = []
    while os.environ["RANK"] == "1":
        hog.append(bytearray(16 << 20))
    time.sleep(60)  # ended by the launcher
main()
""")
        for recovers, code in ((1, 0), (2, 1)):
            with self.subTest(recovers_in_attempt=recovers):
                shell, *words = group.command(interop.DDPRUN, "--standalone", "--nproc-per-node", 2,
                                              "--max-restarts", 1, script, recovers)
                node = self.run_job(*words, launcher=shell, code=code)
                self.assertIn("SIGKILL", node.err)
                if code == 0:
                    self.assertEqual(interop.lines_of([node]), ["rank 0 done", "rank 1 done"])
                else:
                    self.assertIn("rank      : 1 (local_rank: 1)", node.err)
                    self.assertIn("exitcode  : -9 ", node.err)
        self.assertEqual(group.kills(), 3)

    def test_a_worker_that_misses_its_own_file_timer_is_killed_and_started_again(self):
        script = self.write("timer.py", r"""
import os, sys, time
import torch.distributed.elastic.timer as timer
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
    with timer.expires(after=60, scope="patient"):
        pass
    with timer.expires(after=0.3, scope="the step that hangs"):
        time.sleep(60)  # ended by the timer
sys.stdout.write("done\n")
""")
        node = self.run_job("--standalone", "--nproc-per-node", 1, "--max-restarts", 1, script,
                            env=interop.environment(TORCHELASTIC_ENABLE_FILE_TIMER=1))
        self.assertEqual(node.out, "done\n")
        self.assertIn("its own timer 'the step that hangs' expired", node.err)
        self.assertIn("SIGKILL", node.err)

    def test_the_report_of_a_job_that_a_timer_ended_says_so(self):
        path = self.folder / "fifo"
        script = self.write("timer.py", r"""
import json, os, time
request = {"version": 1, "pid": os.getpid(), "scope_id": "data", "signal": 15,
           "expiration_time": time.time() + 0.1}
with open(os.environ["TORCHELASTIC_TIMER_FILE"], "w") as file:
    file.write("junk\n" + json.dumps(request) + "\n")
time.sleep(60)  # ended by the timer
""")
        node = self.run_job("--standalone", script, env=interop.environment(
            TORCHELASTIC_ENABLE_FILE_TIMER=1, TORCHELASTIC_TIMER_FILE=path), code=1)
        self.assertIn("Signal 15 (SIGTERM) received by PID", node.err)
        self.assertIn("its own timer 'data' expired", node.err)
        self.assertFalse(path.exists())

    def test_data_loader_workers_do_not_outlive_a_killed_worker_agent_or_guardian(self):
        script = self.write("loader.py", r"""
import os, pathlib, time
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
class Data(Dataset):
    def __len__(self):
        return 10_000_000
    def __getitem__(self, i):
        path = pathlib.Path(os.environ["PIDS"], str(os.getpid()))
        path.touch()
        return torch.zeros(1)
if __name__ == "__main__":
    pathlib.Path(os.environ["PIDS"], f"main-{os.getpid()}").touch()
    for batch in DataLoader(Data(), num_workers=2, multiprocessing_context="fork"):
        time.sleep(0.01)
""")
        for victim in ("worker", "agent", "guardian"):
            with self.subTest(victim=victim):
                pids = self.folder / victim
                pids.mkdir()
                node = self.start("--standalone", "--nproc-per-node", 1, script,
                                  env=interop.environment(PIDS=pids))
                interop.wait_until(lambda: len(list(pids.iterdir())) == 3, "two data workers")
                mains = [int(p.name[5:]) for p in pids.iterdir() if p.name.startswith("main-")]
                loaders = [int(p.name) for p in pids.iterdir() if not p.name.startswith("main-")]
                agent = children_of(node.pid)[0]
                target = {"worker": mains[0], "agent": agent, "guardian": node.pid}[victim]
                os.kill(target, signal.SIGKILL)
                self.assertNotEqual(node.wait(), 0)
                interop.wait_until(lambda: not any(map(is_alive, [agent, *mains, *loaders])),
                                   "nothing is left", seconds=2)


if __name__ == "__main__":
    interop.main()
