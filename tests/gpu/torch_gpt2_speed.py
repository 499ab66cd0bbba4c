"""torch_gpt2_on_gpu.py SIZES BATCH STEPS: PyTorch's side of gpt2_speed.py on one GPU: the same GPT-2,
compiled, f32 weights with bf16 autocast, fused AdamW and clipping. Prints the tokens per second of the
second half of the steps, or why there is no PyTorch that could. SIZES is JSON."""
import json
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "interop" / "gpt2"))


def main():
    sizes, batch, steps = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    try:
        import torch
    except ImportError:
        sys.exit("there is no PyTorch in this Python")
    if not torch.cuda.is_available():
        sys.exit("this PyTorch finds no GPU")
    import torch_gpt2
    torch.set_float32_matmul_precision("high")
    model = torch_gpt2.Gpt2(torch_gpt2.Config(**sizes), deviation=0.02).cuda()
    optimizer = model.optimizer(1e-4, 0.1, (0.9, 0.95), fused=True)

    def loss_of(inputs, targets):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model.loss(inputs, targets)

    step_of = torch.compile(loss_of)
    shape = (batch, sizes["context"] + 1)
    for step in range(steps):
        if step == steps // 2:
            torch.cuda.synchronize()
            begin = time.monotonic()
        tokens = torch.randint(sizes["vocabulary"], shape, device="cuda")
        optimizer.zero_grad(set_to_none=True)
        step_of(tokens[:, :-1], tokens[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    torch.cuda.synchronize()
    done = (steps - steps // 2) * batch * sizes["context"]
    print(f"tokens_per_s {done / (time.monotonic() - begin):.1f}", flush=True)


main()
