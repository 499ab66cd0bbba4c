"""Warm workers under PyTorch: a restarted DDP run ends with the very same weights as without them,
and @record reports as ever."""
import json
import re

import interop

# One snapshot per step by rank 0; rank 1 of attempt 0 is killed after step 3, when told to.
TRAIN = """
import json, os, signal, time
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

STEPS, SNAPSHOT = 6, os.environ["SNAPSHOT"]

@record
def main():
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(7)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first = 0
    if os.path.exists(SNAPSHOT):
        state = torch.load(SNAPSHOT)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    for step in range(first, STEPS):
        torch.manual_seed(1000 * step + rank)
        loss = model(torch.randn(8, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "step": step}, SNAPSHOT + ".new")
            os.replace(SNAPSHOT + ".new", SNAPSHOT)
        dist.barrier()
        if step == 3 and attempt == 0:
            deadline = time.monotonic() + 150
            while not os.path.exists(os.environ["GO"]) and time.monotonic() < deadline:
                time.sleep(0.01)
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.barrier()
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters()).hex()
    dist.destroy_process_group()
    if rank == 0:
        with open(os.environ["OUT"], "w") as out:
            json.dump([os.getpid(), first, weights], out)
        raise ValueError("told by record")

if __name__ == "__main__":
    main()
"""


class WarmTorch(interop.JobTest):
    def train(self, name, *options):
        script = self.write("train.py", TRAIN)
        self.go, out = self.folder / "go", self.folder / f"{name}.json"
        env = interop.environment(SNAPSHOT=self.folder / f"{name}.pt", OUT=out, GO=self.go,
                                  LOGLEVEL="INFO")
        return out, self.start("--standalone", "--nproc-per-node", 2, "--max-restarts", 1,
                               *options, script, env=env)

    def test_a_restarted_ddp_run_ends_with_the_same_weights_and_record_reports_as_ever(self):
        warm_out, warm = self.train("warm", "--warm-workers")
        cold_out, cold = self.train("cold")
        ready = interop.wait_until(
            lambda: (found := re.findall(r"is ready \(process (\d+)", warm.err))
            and len(found) == 2 and found, "two warm workers")
        self.go.touch()
        answers = []
        for out, node in ((warm_out, warm), (cold_out, cold)):
            self.assertEqual(node.wait(), 1, str(node))
            self.assertIn("ValueError: told by record", node.err)
            answers.append(json.loads(out.read_text()))
        self.assertEqual(re.findall(r"\(process (\d+)\) goes on", warm.err), ready, str(warm))
        self.assertIn(str(answers[0][0]), ready)
        self.assertEqual(answers[0][1:], answers[1][1:])
        self.assertEqual(answers[0][1], 4)


if __name__ == "__main__":
    interop.main()
