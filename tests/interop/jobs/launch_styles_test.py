"""The ways in which PyTorch scripts find each other and are started, each as users write it, under
ddprun with one node or two."""
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interop  # noqa: E402
from program import family_of  # noqa: E402

# A line is one write: the workers share a pipe. And every script that has a group leaves it with
# nothing of it in use: else Gloo's thread may be left with Python objects of the last operation
# while Python shuts down, and aborts (PyTorch 2.13, under any launcher).
SAY = r"""
import os, sys
def say(text):
    sys.stdout.write(text + "\n")
"""

# Trains with DDP; rank 0 says what the weights are at the end.
DDP = SAY + r"""
import gc
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", init_method=os.environ.get("INIT"))
torch.manual_seed(1 + dist.get_rank())
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(),
                                                    torch.nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.Generator().manual_seed(7 + dist.get_rank())
for step in range(20):
    x = torch.randn(16, 8, generator=data)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
if dist.get_rank() == 0:
    weights = torch.cat([p.flatten() for p in model.parameters()]).detach()
    say("weights " + weights.numpy().tobytes().hex())
dist.barrier()
del model
gc.collect()
dist.destroy_process_group()
"""

# As in the days before LOCAL_RANK: a tensor goes from rank 0 to every other rank.
MESSAGES = SAY + r"""
import argparse
import torch, torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("%s", type=int, dest="local_rank")
parser.add_argument("--backend", default="nccl", choices=["nccl", "gloo"])
args = parser.parse_args()
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert args.local_rank == int(os.environ["LOCAL_RANK"])
dist.init_process_group(args.backend, rank=rank, world_size=size)
tensor = torch.zeros(1)
if rank == 0:
    for other in range(1, size):
        dist.send(tensor, dst=other)
        say(f"rank 0 sent data to rank {other}")
else:
    dist.recv(tensor, src=0)
    say(f"rank {rank} has received data from rank 0")
dist.barrier()
dist.destroy_process_group()
"""


TRAIN = interop.DDPRUN.parent / "train"


class LaunchStyles(interop.JobTest):
    def test_ddp_on_one_node_and_on_two_ends_with_the_weights_that_torchrun_ends_with(self):
        script = self.write("ddp.py", DDP)
        reference = self.run_job("--standalone", "--nproc-per-node", 2, script,
                                 launcher=interop.TORCHRUN)
        alone = self.run_job("--standalone", "--nproc-per-node", 2, script)
        two = self.start_nodes(["--nproc-per-node", 1], [script])
        for node in two:
            self.assertEnded(node)
        self.assertEqual(interop.lines_of([alone]), interop.lines_of([reference]))
        self.assertEqual(interop.lines_of(two), interop.lines_of([reference]))

    def run_tcp_init(self, address, **environment):
        """DDP on two nodes, which meet at the address, a Python expression; what the ranks said."""
        script = self.write("ddp.py", DDP.replace(
            'os.environ.get("INIT")',
            f'"tcp://" + {address}, rank=int(os.environ["RANK"]), '
            'world_size=int(os.environ["WORLD_SIZE"])'))
        return interop.lines_of(self.run_nodes(["--nproc-per-node", 1], [script],
                                               env=interop.environment(**environment)))

    def test_tcp_init_at_the_masters_address_meets_in_the_agents_store(self):
        said = self.run_tcp_init('os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]')
        self.assertEqual(len(said), 1)

    def test_tcp_init_at_an_address_of_the_scripts_own_meets_there(self):
        said = self.run_tcp_init(f'"127.0.0.1:{interop.free_port()}"',
                                 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)
        self.assertEqual(len(said), 1)

    def test_rank_0_may_host_a_store_of_its_own_on_the_masters_port(self):
        # Where the agent has one there, PyTorch's server gives way to it; where the store is not
        # to be shared, the port is kept for rank 0.
        script = self.write("own_store.py", SAY + r"""
import torch.distributed as dist
rank = int(os.environ["RANK"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]),
                      int(os.environ["WORLD_SIZE"]), is_master=rank == 0)
store.set(f"from{rank}", "here")
seen = store.get(f"from{1 - rank}").decode()
say(f"rank {rank} sees {seen}, agent's {os.environ['TORCHELASTIC_USE_AGENT_STORE']}")
store.add("done", 1)
while rank == 0 and store.add("done", 0) < 2:
    pass
""")
        for unshared, agents in ((None, True), (1, False)):
            with self.subTest(agents_store=agents):
                nodes = self.start_nodes(
                    ["--nproc-per-node", 1], [script],
                    env=interop.environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE=unshared))
                for node in nodes:
                    self.assertEnded(node)
                self.assertEqual(interop.lines_of(nodes), [f"rank {rank} sees here, agent's {agents}"
                                                for rank in (0, 1)])

    def test_env_init_without_the_shared_store_hosts_it_in_rank_0(self):
        script = self.write("ddp.py", DDP)
        node = self.run_job("--standalone", "--nproc-per-node", 2, script,
                            env=interop.environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1))
        self.assertEqual(len(interop.lines_of([node])), 1)

    def test_scripts_of_before_LOCAL_RANK_get_it_as_an_argument_in_their_own_spelling(self):
        for spelling in ("--local_rank", "--local-rank"):
            script = self.write(f"main{spelling}.py", MESSAGES % spelling)
            port = interop.free_port()
            nodes = [self.start("--legacy-launch", "--nproc_per_node=1", "--nnodes=2",
                                f"--node_rank={i}", "--master_addr=127.0.0.1",
                                f"--master_port={port}", script, "--backend=gloo")
                     for i in range(2)]
            for node in nodes:
                self.assertEnded(node)
            self.assertEqual(interop.lines_of(nodes), ["rank 0 sent data to rank 1",
                                            "rank 1 has received data from rank 0"])

    def test_the_native_trainer_ends_under_torchrun_as_it_ends_under_ddprun_also_after_a_kill(self):
        def train(name, launcher, *options):
            return self.start("--standalone", "--no-python", "--nproc-per-node", 2, *options, TRAIN,
                              "linear", 2000, 100, "--batch-size", 256, "--snapshot-path",
                              self.folder / name, launcher=launcher)
        killed = train("killed", interop.TORCHRUN, "--max-restarts", 1)
        ended = [train("torchrun", interop.TORCHRUN), train("ddprun", interop.DDPRUN)]
        interop.wait_until(lambda: "snapshot saved" in killed.out, lambda: f"it trains: {killed}")
        workers = [pid for pid in family_of(killed.pid)
                   if pathlib.Path(f"/proc/{pid}/comm").read_text() == "train\n"]
        os.kill(workers[-1], signal.SIGKILL)
        finished = []
        for node in (*ended, killed):
            self.assertEnded(node)
            finished += re.findall("Training finished: (.*)", node.out)
        self.assertRegex(finished[0], r"^2000 epochs, loss 0\.\d+, weights [0-9a-f]{16}$")
        self.assertEqual(finished, [finished[0]] * 3)
        self.assertIn("Resuming training from snapshot at Epoch ", killed.out)

    def test_a_module_runs_by_its_name(self):
        package = self.folder / "pkg"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "train.py").write_text(SAY + r"""
say(f"{__name__} {__package__} {sys.argv[1:]} {os.environ['RANK']}")
""")
        node = self.run_job("--standalone", "--nproc-per-node", 2, "-m", "pkg.train", "--lr", "0.1")
        self.assertEqual(interop.lines_of([node]), [f"__main__ pkg ['--lr', '0.1'] {rank}" for rank in (0, 1)])

    def test_a_script_that_executes_itself_again_keeps_its_place(self):
        script = self.write("again.py", SAY + r"""
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = str(os.getpid())
    os.execv(sys.executable, [sys.executable, *sys.argv])
import torch.distributed as dist
dist.init_process_group("gloo")
assert os.environ["AGAIN"] == str(os.getpid())
say(f"rank {dist.get_rank()} of {dist.get_world_size()}, again")
dist.barrier()
dist.destroy_process_group()
""")
        node = self.run_job("--standalone", "--nproc-per-node", 2, script)
        self.assertEqual(interop.lines_of([node]), ["rank 0 of 2, again", "rank 1 of 2, again"])

    def test_three_variables_are_enough_for_a_script_that_brings_its_own_meeting(self):
        script = self.write("three.py", SAY + r"""
import torch.distributed as dist
local, rank, size = (int(os.environ[n]) for n in ("LOCAL_RANK", "RANK", "WORLD_SIZE"))
dist.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=rank,
                        world_size=size)
dist.barrier()
say(f"{local} {rank} {size}")
dist.destroy_process_group()
""")
        node = self.run_job("--standalone", "--nproc-per-node", 2, script,
                            env=interop.environment(MEET=self.folder / "meet"))
        self.assertEqual(interop.lines_of([node]), ["0 0 2", "1 1 2"])

    def test_monitored_barrier_names_the_rank_that_does_not_come(self):
        script = self.write("barrier.py", SAY + r"""
import datetime, time
import torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    dist.barrier(async_op=True)  # anything else than what rank 0 is in
    time.sleep(60)  # ended by the launcher
dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))
""")
        node = self.run_job("--standalone", "--nproc-per-node", 2, "--shutdown-timeout", 5, script,
                            code=1)
        self.assertIn("Rank 1 failed to pass monitoredBarrier", node.err)
        self.assertIn("Root Cause (first observed failure):", node.err)
        self.assertIn("rank      : 0 (local_rank: 0)", node.err)


if __name__ == "__main__":
    interop.main()
