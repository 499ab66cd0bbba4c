"""A ResNet in PyTorch, written here (torchvision is not needed), with torchvision's names of
parameters in the trainer's order; and files of its weights and of images for resnet_story.

  resnet_model.py DEPTH STEM BATCH STEPS DIR [DTYPE]   writes DIR's files from a fixed seed, does the
                                                       same steps and saves what came out (torch.pt)"""
import sys
import time

import numpy
import torch
from torch import nn

RATE, MOMENTUM, CLASSES = 0.002, 0.9, 10
BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


class Block(nn.Module):
    def __init__(self, channels, width, stride, bottleneck):
        super().__init__()
        sizes = ([(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)] if bottleneck
                 else [(width, 3, stride), (width, 3, 1)])
        # Before the path, unlike torchvision: the trainer has its tensors in this order.
        self.out, self.downsample = sizes[-1][0], None
        if stride != 1 or self.out != channels:
            self.downsample = nn.Sequential(nn.Conv2d(channels, self.out, 1, stride, bias=False),
                                            nn.BatchNorm2d(self.out))
        self.count, before = len(sizes), channels
        for number, (out, kernel, step) in enumerate(sizes, 1):
            self.add_module(f"conv{number}", nn.Conv2d(before, out, kernel, step, kernel // 2,
                                                       bias=False))
            self.add_module(f"bn{number}", nn.BatchNorm2d(out))
            before = out

    def forward(self, x):
        y = x
        for number in range(1, self.count + 1):
            y = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(y))
            if number < self.count:
                y = torch.relu(y)
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depth, stem):
        super().__init__()
        large = stem == "large"
        self.conv1 = (nn.Conv2d(3, 64, 7, 2, 3, bias=False) if large
                      else nn.Conv2d(3, 64, 3, 1, 1, bias=False))
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        channels = 64
        for stage, count in enumerate(BLOCKS[depth]):
            blocks = []
            for at in range(count):
                blocks.append(Block(channels, 64 << stage, 2 if stage and not at else 1, depth == 50))
                channels = blocks[-1].out
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


def main(depth, stem, batch, steps, folder, dtype="float32"):
    depth, batch, steps, dtype = int(depth), int(batch), int(steps), getattr(torch, dtype)
    torch.manual_seed(7)
    model = ResNet(depth, stem)
    images = torch.randn(steps * batch, 3, 32, 32)
    labels = torch.randint(0, CLASSES, (steps * batch,))
    with torch.no_grad():
        # Scale and offset of each normalisation take part. The offset keeps most values away from 0:
        # where rounding moves one over ReLU's edge, its gradient is another (1e-3 of the whole).
        for name, value in model.named_parameters():
            if "bn" in name or "downsample.1" in name:
                value.add_(0.2 * torch.randn_like(value) + (2 if name.endswith("bias") else 0))
    flat = lambda tensors: numpy.concatenate([t.detach().float().numpy().ravel() for t in tensors])
    flat(model.parameters()).tofile(f"{folder}/weights.bin")
    images.numpy().tofile(f"{folder}/images.bin")
    labels.numpy().tofile(f"{folder}/labels.bin")
    model.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    result = {"losses": [], "names": [name for name, _ in model.named_parameters()]}
    for step in range(steps):
        began = time.perf_counter()
        part = slice(step * batch, (step + 1) * batch)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[part].to(dtype)), labels[part])
        loss.backward()
        if step == 0:
            result["gradients"] = [p.grad.double().clone() for p in model.parameters()]
        optimizer.step()
        result["losses"].append(loss.item())
        print(f"{loss.item():.9g} {1000 * (time.perf_counter() - began):.3f}", flush=True)
    result["buffers"] = [b.double() for name, b in model.named_buffers() if "running" in name]
    torch.save(result, f"{folder}/torch.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
