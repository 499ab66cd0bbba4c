"""torch_gpt2_train.py TEXT STEPS SIZES [--compile] [--bf16]: PyTorch's side of measure_gpt2.py: GPT-2, DDP over
Gloo, fused AdamW and clipping, f32 or autocast to bf16. Under a launcher. Rank 0 prints tokens per second of the whole
job over the second half of the steps, and the processor time of one of its own tokens. SIZES is JSON: the fields of torch_gpt2.Config, and batch."""
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "interop" / "gpt2"))
import torch_gpt2  # noqa: E402


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, targets):
        return self.model.loss(inputs, targets)


def main():
    text, steps, sizes = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    batch = sizes.pop("batch")
    config = torch_gpt2.Config(**sizes)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tokens = torch.frombuffer(bytearray(pathlib.Path(text).read_bytes()), dtype=torch.uint8).long()
    model = torch_gpt2.Gpt2(config, deviation=0.02)
    optimizer = model.optimizer(1e-3, 0.1, (0.9, 0.95), fused=True)
    module = DistributedDataParallel(Loss(model), gradient_as_bucket_view=True)
    if "--compile" in sys.argv:
        module = torch.compile(module)
    order = torch.Generator().manual_seed(dist.get_rank())
    samples = (len(tokens) - 1) // config.context
    for step in range(steps):
        if step == steps // 2:
            dist.barrier()
            begin, worked = time.monotonic(), time.process_time()
        rows = torch.randint(samples, (batch,), generator=order) * config.context
        rows = rows[:, None] + torch.arange(config.context)
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cpu", torch.bfloat16, enabled="--bf16" in sys.argv):
            loss = module(tokens[rows], tokens[rows + 1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds, worked = time.monotonic() - begin, time.process_time() - worked
    if dist.get_rank() == 0:
        own = (steps - steps // 2) * batch * config.context
        print(f"tokens_per_s {own * dist.get_world_size() / seconds:.1f} processor_s {worked / own:.9f}", flush=True)
    dist.destroy_process_group()


main()
