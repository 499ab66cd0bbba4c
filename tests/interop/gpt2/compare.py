"""compare.py GPT2_STEPS FOLDER SIZES: runs PyTorch and the program side by side on the same weights
and batches; prints a line of JSON with the largest difference of each kind. SIZES is JSON: the
fields of torch_gpt2.Config, batch, time, steps. Run by the Python with PyTorch."""
import json
import pathlib
import subprocess
import sys

import numpy
import torch

import torch_gpt2

RATE, DECAY, BETAS, CLIP = 1e-3, 0.1, (0.9, 0.95), 1.0


def main():
    program, folder, sizes = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
    batch, time, steps = (sizes.pop(name) for name in ("batch", "time", "steps"))
    config = torch_gpt2.Config(**sizes)
    torch.set_num_threads(1)
    model = torch_gpt2.Gpt2(config)
    random = numpy.random.default_rng(7)
    # Text that can be learnt: each token is likely to be followed by its double.
    first = random.integers(0, config.vocabulary, (steps, batch, 1))
    rows = [first]
    for _ in range(time):
        noise = random.integers(0, config.vocabulary, first.shape)
        rows.append(numpy.where(random.random(first.shape) < 0.8, rows[-1] * 2 % config.vocabulary,
                                noise))
    tokens = numpy.concatenate(rows, axis=2).astype("<i4")
    inputs, targets = tokens[:, :, :-1], tokens[:, :, 1:].copy()
    targets[random.random(targets.shape) < 0.1] = -100

    with open(folder / "in", "wb") as file:
        file.write(numpy.array([config.layers, config.heads, config.channels, config.context,
                                config.vocabulary, batch, time, steps], "<i8").tobytes())
        file.write(numpy.array([RATE, DECAY, *BETAS, CLIP], "<f8").tobytes())
        for _, parameter in model.ordered():
            file.write(parameter.detach().numpy().astype("<f4").tobytes())
        for step in range(steps):
            file.write(inputs[step].tobytes() + targets[step].tobytes())
    subprocess.run([program, folder / "in", folder / "out"], check=True, timeout=200)
    ours = numpy.fromfile(folder / "out", "<f4", count=sum(p.numel() for p in model.parameters()))
    our_losses = numpy.fromfile(folder / "out", "<f8", offset=ours.nbytes)

    optimizer = model.optimizer(RATE, DECAY, BETAS)
    losses, worst = [], ("", 0.0)
    for step in range(steps):
        optimizer.zero_grad()
        loss = model.loss(torch.from_numpy(inputs[step]).long(),
                          torch.from_numpy(targets[step]).long())
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            at = 0
            for name, parameter in model.ordered():
                theirs = parameter.grad.numpy().reshape(-1)
                mine = ours[at:at + theirs.size]
                at += theirs.size
                # Relative to the largest of its tensor; attention's bias of the keys has a gradient
                # of 0 but for rounding, which is less than a part of the whole bias's.
                worst = max(worst, (name, float(abs(mine - theirs).max() / abs(theirs).max())),
                            key=lambda pair: pair[1])
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    print(json.dumps({"tensor": worst[0], "gradient": worst[1], "first": losses[0],
                      "last": losses[-1],
                      "loss": float(abs(our_losses / numpy.array(losses) - 1).max())}))


main()
