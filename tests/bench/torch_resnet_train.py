"""torch_resnet_train.py DEPTH STEM BATCH STEPS THREADS FORMAT: PyTorch's side of measure_resnet.py: a ResNet on random
images that lie ready in memory, with SGD, in f32; FORMAT is nchw or nhwc (channels_last)."""
import pathlib
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import resnet_model  # noqa: E402


def main(depth, stem, batch, steps, threads, layout):
    torch.set_num_threads(int(threads))
    batch, layout = int(batch), torch.channels_last if layout == "nhwc" else torch.contiguous_format
    model = resnet_model.ResNet(int(depth), stem).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0005)
    images = torch.randn(batch, 3, 32, 32).to(memory_format=layout)
    labels = torch.randint(0, resnet_model.CLASSES, (batch,))
    for _ in range(int(steps)):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


main(*sys.argv[1:])
