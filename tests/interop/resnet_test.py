"""Our ResNet beside PyTorch's, with the same weights and images, in f32: each gradient of the first
step, the losses of some steps, and the running statistics after them. PyTorch in f64 is the judge."""
import struct
import subprocess

import interop

STORY = interop.DDPRUN.parents[1] / "tests" / "resnet_story"
MODEL = interop.ROOT / "tests" / "interop" / "resnet_model.py"

# How far each tensor of a file, and PyTorch's, is from that of PyTorch in f64: name and both figures.
COMPARE = """
import sys, numpy, torch
folder, truth, key = sys.argv[1:]
result, exact = torch.load(f"{folder}/torch.pt"), torch.load(f"{truth}/torch.pt")[sys.argv[3]]
ours = torch.from_numpy(numpy.fromfile(f"{folder}/{key}.bin", dtype=numpy.float32)).double()
assert len(ours) == sum(t.numel() for t in exact), "another number of values"
names = result["names"] if key == "gradients" else range(len(exact))
# A true gradient of 0 (a shift before another normalisation) is rounding alone, in both.
nothing = 1e-7 * max(t.norm() for t in exact)
for name, theirs, true in zip(names, result[key], exact):
    mine, ours = ours[:true.numel()].view_as(true), ours[true.numel():]
    small = true.norm() < nothing and mine.norm() < nothing
    print(name, *(0.0 if small else ((t - true).norm() / true.norm()).item() for t in (mine, theirs)))
"""


class BesidePyTorch(interop.JobTest):
    def both(self, depth, stem, batch, steps):
        """Runs both; the lines that ours printed, and the losses of PyTorch's."""
        words = [depth, stem, batch, steps, self.folder]
        one_thread = interop.environment(OMP_NUM_THREADS=1)  # the machine has other tests, too
        theirs = self.run_job(MODEL, *words, launcher=interop.PYTHON, env=one_thread)
        self.truth = self.folder / "truth"
        self.truth.mkdir()
        self.run_job(MODEL, *words[:-1], self.truth, "float64", launcher=interop.PYTHON,
                     env=one_thread)
        ours = self.run_job(*words, launcher=STORY, env=one_thread).out.splitlines()
        self.names = ours[steps:]
        losses = [[float(line.split()[0]) for line in lines]
                  for lines in (ours[:steps], theirs.out.splitlines())]
        return losses

    def differences(self, key):
        done = subprocess.run([str(w) for w in (interop.PYTHON, "-c", COMPARE, self.folder,
                                               self.truth, key)], text=True, capture_output=True, timeout=interop.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {name: (float(ours), float(theirs))
                for name, ours, theirs in map(str.split, done.stdout.splitlines())}

    # 1e-4, or twice what PyTorch's own rounding does: a few gradients of shifts before a normalisation
    # nearly cancel out, and there its f32 gradients are up to 8e-4 from its f64 ones.
    def assertAgrees(self, depth, stem, batch, steps):
        ours, theirs = self.both(depth, stem, batch, steps)
        gradients = self.differences("gradients")
        self.assertEqual(list(gradients), self.names)
        for name, (mine, other) in (gradients | self.differences("buffers")).items():
            self.assertLess(mine, max(1e-4, 2 * other), name)
        self.assertEqual(len(ours), steps)
        for mine, other in zip(ours, theirs):
            self.assertLess(abs(mine - other), 1e-3 * other, (ours, theirs))

    def test_resnet18_for_small_images(self):
        self.assertAgrees(18, "small", 3, 3)

    def test_resnet18_with_the_large_stem(self):
        self.assertAgrees(18, "large", 16, 5)

    # One step: of other images an activation is so near ReLU's edge that rounding moves it over with
    # some instruction sets, and not with others; its gradient is another one then.
    def test_resnet50_for_small_images(self):
        self.assertAgrees(50, "small", 2, 1)


if __name__ == "__main__":
    interop.main()
