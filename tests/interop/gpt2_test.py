"""Our GPT-2 and PyTorch's: the same weights and batches give the same gradients and losses."""
import json
import pathlib
import subprocess

import interop

PROGRAM = interop.DDPRUN.parent.parent / "tests" / "gpt2_steps"
COMPARE = pathlib.Path(__file__).parent / "gpt2" / "compare.py"


class Gpt2(interop.JobTest):
    def compare(self, **sizes):
        done = subprocess.run([interop.PYTHON, "-B", COMPARE, PROGRAM, self.folder,
                               json.dumps(sizes)], capture_output=True, text=True, timeout=280,
                              env=interop.environment(OMP_NUM_THREADS=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_gradients_and_the_losses_of_50_steps_are_those_of_pytorch(self):
        found = self.compare(batch=4, time=64, steps=50)
        self.assertLess(found["gradient"], 1e-4, found)
        self.assertLess(found["loss"], 1e-3, found)
        self.assertLess(found["last"], found["first"] - 1, found)  # so that something was compared

    def test_gradients_are_those_of_pytorch_at_odd_sizes_and_beyond_one_strip_of_attention(self):
        for sizes in (dict(batch=3, time=37, heads=3, channels=51, vocabulary=61, layers=2),
                      dict(batch=1, time=1, heads=1, channels=8, vocabulary=3, layers=1),
                      dict(batch=2, time=203, heads=2, channels=128, vocabulary=301, layers=2,
                           context=210)):
            found = self.compare(**sizes, steps=1)
            self.assertLess(found["gradient"], 1e-4, (sizes, found))
            self.assertLess(found["loss"], 1e-5, (sizes, found))


if __name__ == "__main__":
    interop.main()
