"""Our ResNet beside PyTorch's, with the same weights and images, in f32: each gradient of the first
step, the losses of some steps, and the running statistics after them."""
import struct
import subprocess

import interop

STORY = interop.DDPRUN.parents[1] / "tests" / "resnet_story"
MODEL = interop.ROOT / "tests" / "interop" / "resnet_model.py"

# The relative difference of each tensor of a file from that in torch.pt: its name and the figure.
COMPARE = """
import sys, numpy, torch
folder, key = sys.argv[1:]
result = torch.load(f"{folder}/torch.pt")
ours = torch.from_numpy(numpy.fromfile(f"{folder}/{key}.bin", dtype=numpy.float32)).double()
assert len(ours) == sum(t.numel() for t in result[key]), "another number of values"
names = result["names"] if key == "gradients" else range(len(result[key]))
# A true gradient of 0 (a shift before another normalisation) is rounding alone, in both.
nothing = 1e-7 * max(t.norm() for t in result[key])
for name, theirs in zip(names, result[key]):
    mine, ours = ours[:theirs.numel()].view_as(theirs), ours[theirs.numel():]
    both_nothing = mine.norm() < nothing and theirs.norm() < nothing
    print(name, 0.0 if both_nothing else ((mine - theirs).norm() / theirs.norm()).item())
"""


class BesidePyTorch(interop.JobTest):
    def both(self, depth, stem, batch, steps):
        """Runs both; the lines that ours printed, and the losses of PyTorch's."""
        words = [depth, stem, batch, steps, self.folder]
        one_thread = interop.environment(OMP_NUM_THREADS=1)  # the machine has other tests, too
        theirs = self.run_job(MODEL, *words, launcher=interop.PYTHON, env=one_thread)
        ours = self.run_job(*words, launcher=STORY, env=one_thread).out.splitlines()
        self.names = ours[steps:]
        losses = [[float(line.split()[0]) for line in lines]
                  for lines in (ours[:steps], theirs.out.splitlines())]
        return losses

    def differences(self, key):
        done = subprocess.run([str(w) for w in (interop.PYTHON, "-c", COMPARE, self.folder, key)],
                              text=True, capture_output=True, timeout=interop.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {name: float(figure) for name, figure in map(str.split, done.stdout.splitlines())}

    # Rounding puts a few activations on the other side of ReLU's edge, and other ones on every
    # processor. Beyond the smallest case such a gradient may differ by more than 1e-4.
    def assertAgrees(self, depth, stem, batch, steps, bound=1e-3):
        ours, theirs = self.both(depth, stem, batch, steps)
        gradients = self.differences("gradients")
        self.assertEqual(list(gradients), self.names)
        for name, difference in gradients.items():
            self.assertLess(difference, bound, name)
        for number, difference in self.differences("buffers").items():
            self.assertLess(difference, bound, f"buffer {number}")
        self.assertEqual(len(ours), steps)
        for mine, other in zip(ours, theirs):
            self.assertLess(abs(mine - other), 1e-3 * other, (ours, theirs))

    def test_resnet18_for_small_images(self):
        self.assertAgrees(18, "small", 3, 3, bound=1e-4)

    def test_resnet18_with_the_large_stem(self):
        self.assertAgrees(18, "large", 16, 5)

    def test_resnet50_for_small_images(self):
        self.assertAgrees(50, "small", 2, 2)


if __name__ == "__main__":
    interop.main()
