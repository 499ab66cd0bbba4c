"""Jobs that go on after a failure from what they saved: the shapes that tutorials teach."""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interop  # noqa: E402

# Two workers, each now and then throws; a state file is all that they remember.
TOY = r"""
import json, os, random, sys
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    state = {"num_steps": 0}
    if os.path.exists("toy-state.json"):
        with open("toy-state.json") as file:
            state = json.load(file)
    generator = random.Random(100 * attempt + rank)
    while state["num_steps"] < 30:
        if attempt < 2 and generator.random() < 0.02:
            raise ValueError(f"rank {rank} had bad luck")
        state["num_steps"] += 1
        if rank == 0:
            with open("toy-state.json.new", "w") as file:
                json.dump(state, file)
            os.replace("toy-state.json.new", "toy-state.json")
    sys.stdout.write(f"rank {rank} done in attempt {attempt}\n")
    if attempt < 2 and rank == 1:
        raise ValueError("not yet")
main()
"""

# The tutorial's trainer: a snapshot every N epochs, from which a restarted job goes on.
TUTORIAL = r"""
import argparse, gc, os, signal, sys
import torch
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

class Trainer:
    def __init__(self, model, data, optimizer, save_every, snapshot_path):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.global_rank = int(os.environ["RANK"])
        self.model, self.data, self.optimizer = model, data, optimizer
        self.save_every, self.snapshot_path, self.epochs_run = save_every, snapshot_path, 0
        if os.path.exists(snapshot_path):
            snapshot = torch.load(snapshot_path)
            self.model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
            sys.stdout.write(f"rank {self.global_rank} resumes at epoch {self.epochs_run}\n")
        self.model = DDP(self.model)

    def run_epoch(self, epoch):
        self.data.sampler.set_epoch(epoch)
        for source, targets in self.data:
            self.optimizer.zero_grad()
            F.mse_loss(self.model(source), targets).backward()
            self.optimizer.step()

    def train(self, epochs):
        for epoch in range(self.epochs_run, epochs):
            self.run_epoch(epoch)
            if self.global_rank == 0 and (epoch + 1) % self.save_every == 0:
                torch.save({"MODEL_STATE": self.model.module.state_dict(),
                            "EPOCHS_RUN": epoch + 1}, self.snapshot_path + ".new")
                os.replace(self.snapshot_path + ".new", self.snapshot_path)
            torch.distributed.barrier()
            first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
            if "KILL_RANK" in os.environ and first and epoch == 4 and \
                    self.global_rank == int(os.environ["KILL_RANK"]):
                os.kill(os.getpid(), signal.SIGKILL)
        if self.global_rank == 0:
            weights = torch.cat([p.flatten() for p in self.model.parameters()])
            sys.stdout.write("weights " + weights.detach().numpy().tobytes().hex() + "\n")

def main(total_epochs, save_every, batch_size):
    init_process_group("gloo")
    torch.manual_seed(3)
    data = TensorDataset(torch.randn(256, 20), torch.randn(256, 1))
    model = torch.nn.Linear(20, 1)
    loader = DataLoader(data, batch_size=batch_size, sampler=DistributedSampler(data))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    Trainer(model, loader, optimizer, save_every, "snapshot.pt").train(total_epochs)
    gc.collect()  # of the model that still uses the group; see launch_styles_test
    destroy_process_group()

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("total_epochs", type=int)
    parser.add_argument("save_every", type=int)
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    main(args.total_epochs, args.save_every, args.batch_size)
"""

# Distributed checkpoints: every rank writes its shard; after a restart they are read again.
DCP = r"""
import os, sys
import torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
state = {"weights": torch.zeros(16), "step": torch.zeros(1)}
os.makedirs("checkpoints", exist_ok=True)
done = sorted(int(n) for n in os.listdir("checkpoints")
              if os.path.exists(f"checkpoints/{n}/.metadata"))
if done:
    dcp.load(state, checkpoint_id=f"checkpoints/{done[-1]}")
    sys.stdout.write(f"rank {rank} goes on from step {int(state['step'])}\n")
for step in range(int(state["step"]), 6):
    total = torch.full((16,), float(rank + step))
    dist.all_reduce(total)
    state["weights"] += total
    state["step"] += 1
    if step % 2 == 1:
        dcp.save(state, checkpoint_id=f"checkpoints/{step + 1}")
    if attempt == 0 and step == 4 and rank == 1:
        raise RuntimeError("lost between two checkpoints")
sys.stdout.write(f"rank {rank} ends with {state['weights'][0].item():.0f}\n")
dist.barrier()
dist.destroy_process_group()
"""

# Rank 0 leaves a key in attempt 0's store, and rank 1 looks for it in attempt 1's. Who needs no
# store does not import PyTorch.
KEY = r"""
import os, sys, time
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
def store():
    import torch.distributed as dist
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]),
                         is_master=False, wait_for_workers=False)
if attempt == "0" and rank == "0":
    found = store()
    sys.stdout.write(f"begins with {found.num_keys()} keys\n")
    found.set("left behind", "here")
    sys.stdout.write(f"it is there: {found.check(['left behind'])}\n")
    open("left", "w").close()
deadline = time.monotonic() + 150
while not os.path.exists("left") and time.monotonic() < deadline:
    time.sleep(0.01)
if attempt == "0":
    sys.exit(3) if rank == "1" else time.sleep(1000)  # stopped by the launcher
if rank == "1":
    found = store()
    sys.stdout.write(f"begins with {found.num_keys()} keys\n")
    sys.stdout.write(f"it is there: {found.check(['left behind'])}\n")
"""


class Restarts(interop.JobTest):
    def test_the_toy_ends_after_two_restarts_with_all_logs_kept(self):
        script = self.write("toy.py", TOY)
        logs = self.folder / "logs"
        node = self.run_job("--standalone", "--nproc-per-node", 2, "--max-restarts", 2,
                            "--redirects", 3, "--log-dir", logs, script)
        state = json.loads((self.folder / "toy-state.json").read_text())
        self.assertEqual(state, {"num_steps": 30})
        attempts = sorted(path.name for path in next(logs.iterdir()).iterdir())
        self.assertEqual(attempts, [f"attempt_{n}" for n in range(3)])
        last = next(logs.iterdir()) / "attempt_2"
        for rank in range(2):
            self.assertEqual((last / str(rank) / "stdout.log").read_text(),
                             f"rank {rank} done in attempt 2\n")
        for attempt in range(2):
            errors = list(next(logs.iterdir()).glob(f"attempt_{attempt}/*/error.json"))
            self.assertGreaterEqual(len(errors), 1)

    def trained(self, folder, nodes, kill=None):
        folder.mkdir()
        script = self.write("train.py", TUTORIAL)
        started = self.start_nodes(["--nproc-per-node", 2 // nodes, "--max-restarts", 3],
                                   [script, 8, 2], nodes=nodes, cwd=folder,
                                   env=interop.environment(KILL_RANK=kill))
        for node in started:
            self.assertEnded(node)
        out = "".join(node.out for node in started)
        return re.search("weights (.*)", out).group(1), out

    def test_the_tutorials_trainer_goes_on_from_its_snapshot_to_the_same_weights(self):
        undisturbed, _ = self.trained(self.folder / "undisturbed", nodes=1)
        for nodes, kill in ((1, 1), (2, 0)):
            with self.subTest(nodes=nodes):
                weights, out = self.trained(self.folder / f"killed-{nodes}", nodes, kill)
                self.assertEqual(weights, undisturbed)
                self.assertEqual(sorted(re.findall("rank . resumes at epoch .", out)),
                                 ["rank 0 resumes at epoch 4", "rank 1 resumes at epoch 4"])

    def assertEmptyStore(self, nodes):
        self.assertEqual(nodes[0].out.splitlines()[1:], ["it is there: True"])
        self.assertEqual(nodes[1].out.splitlines(),
                         [nodes[0].out.splitlines()[0], "it is there: False"])

    def test_each_attempt_begins_with_an_empty_store(self):
        script = self.write("key.py", KEY)
        self.assertEmptyStore(self.run_nodes(
            ["--max-restarts", 1], [script],
            each=lambda i: ["--rdzv-conf", f"is_host={int(i == 0)}"]))

    def test_each_attempt_begins_with_an_empty_store_where_a_static_job_keeps_its_port(self):
        script = self.write("key.py", KEY)
        port = interop.free_port()
        nodes = [self.start("--nnodes", 2, "--node-rank", rank, "--master-addr", "127.0.0.1",
                            "--master-port", port, "--max-restarts", 1, script) for rank in (0, 1)]
        for node in nodes:
            self.assertEnded(node)
        self.assertEmptyStore(nodes)

    def test_a_distributed_checkpoint_is_where_a_restarted_job_goes_on(self):
        script = self.write("dcp.py", DCP)
        nodes = self.run_nodes(["--nproc-per-node", 1, "--max-restarts", 1], [script])
        said = sorted(line for node in nodes for line in node.out.splitlines())
        expected = sum(step + step + 1 for step in range(6))
        self.assertEqual(said, [f"rank {rank} {what}" for rank in (0, 1)
                                for what in (f"ends with {expected}", "goes on from step 4")])


if __name__ == "__main__":
    interop.main()
