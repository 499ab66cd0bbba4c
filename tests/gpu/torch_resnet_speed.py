"""torch_resnet_speed.py DEPTH BATCH STEPS: PyTorch's side of gpu_check.py's resnet_speed on one GPU: the same ResNet with
the small stem on random images of 32 x 32 on the device, compiled, channels_last, f32 weights with bf16 autocast, SGD with
momentum, fused. Prints the images per second of the second half of the steps, or why there is no PyTorch that could."""
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "interop"))


def main(depth, batch, steps):
    try:
        import torch
    except ImportError:
        sys.exit("there is no PyTorch in this Python")
    if not torch.cuda.is_available():
        sys.exit("this PyTorch finds no GPU")
    import resnet_model
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    model = resnet_model.ResNet(depth, "small").cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0005, fused=True)

    def loss_of(images, labels):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return torch.nn.functional.cross_entropy(model(images), labels)

    step_of = torch.compile(loss_of)
    images = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(resnet_model.CLASSES, (batch,), device="cuda")
    for step in range(steps):
        if step == steps // 2:
            torch.cuda.synchronize()
            begin = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        step_of(images, labels).backward()
        optimizer.step()
    torch.cuda.synchronize()
    print(f"images_per_s {(steps - steps // 2) * batch / (time.monotonic() - begin):.1f}", flush=True)


main(*map(int, sys.argv[1:]))
