"""What a training tells: its event files as TensorBoard's own reader sees them, its line on a
terminal, and the pictures of scripts/plot. metrics_story tells of a training."""
import json
import re
import subprocess
import sys

import interop
import skip
from terminal import Terminal

STORY = interop.DDPRUN.parents[1] / "tests" / "metrics_story"
PLOT = interop.ROOT / "scripts" / "plot"
PNG = b"\x89PNG\r\n\x1a\n"

# Every curve of one directory, as [step, value] by tag.
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
reader = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
print(json.dumps({tag: [[e.step, e.value] for e in reader.Scalars(tag)]
                  for tag in reader.Tags()["scalars"]}))
"""
# All runs below a directory, as TensorBoard's server finds them.
RUNS = """
import json, sys
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
runs = EventMultiplexer().AddRunsFromDirectory(sys.argv[1])
runs.Reload()
print(json.dumps(sorted(runs.Runs())))
"""


def need_module(name):
    there = any(interop.VENV.glob(f"lib/python*/site-packages/{name}/__init__.py"))
    skip.need(skip.PYTORCH, there, f"there is no {name} in {interop.VENV}; "
                                   "scripts/setup --with-pytorch installs it")


class Told(interop.JobTest):
    needs_torch = False

    def story(self, rank=0, attempt=0, first=1, last=100, total=100, log_every=10, tensorboard=True,
              launcher=STORY, **how):
        words = [rank, attempt, first, last, total, log_every, self.folder / "metrics"]
        return self.run_job(*words, *([self.folder / "tb"] if tensorboard else []),
                            launcher=launcher, **how)

    def python(self, code, *words):
        done = subprocess.run([str(w) for w in (interop.PYTHON, "-c", code, *words)], text=True,
                              capture_output=True, timeout=interop.PATIENCE,
                              env=interop.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


class Curves(Told):
    def setUp(self):
        need_module("tensorboard")
        super().setUp()

    def curves(self, rank=0):
        return self.python(READER, self.folder / "tb" / "story" / f"rank-{rank}")

    def test_tensorboard_reads_every_curve(self):
        self.story()
        curves = self.curves()
        self.assertEqual(sorted(curves), [
            "seconds/backward", "seconds/data", "seconds/forward", "seconds/snapshot", "seconds/sync",
            "seconds/update", "speed/memory_MiB", "speed/tokens_per_second", "train/epoch",
            "train/learning_rate", "train/loss", "validation/accuracy", "validation/loss"])
        self.assertEqual([step for step, _ in curves["train/loss"]], list(range(10, 101, 10)))
        for step, loss in curves["train/loss"]:
            self.assertAlmostEqual(loss, 10 / step, places=6)
        self.assertEqual(curves["speed/memory_MiB"][0], [10, 100.0])
        self.assertEqual(curves["validation/accuracy"], [[50, 0.25]])

    def test_a_resumed_run_goes_on_in_the_same_curve_and_draws_no_step_twice(self):
        self.story(last=47, log_every=5)
        self.story(attempt=1, first=31, last=33, log_every=5)  # ended before its first point
        self.story(attempt=2, first=31, last=100, log_every=5)
        self.assertEqual(len(list((self.folder / "tb" / "story" / "rank-0").iterdir())), 3)
        self.assertEqual([step for step, _ in self.curves()["train/loss"]], list(range(5, 101, 5)))

    def test_steps_that_an_ended_attempt_drew_are_gone_before_they_are_done_again(self):
        self.story(last=47, log_every=5)
        self.story(attempt=1, first=31, last=33, log_every=5)
        self.assertEqual([step for step, _ in self.curves()["train/loss"]], list(range(5, 31, 5)))

    def test_each_rank_is_a_run_of_the_experiment(self):
        self.story(rank=0)
        self.story(rank=1)
        self.assertEqual(self.python(RUNS, self.folder / "tb"), ["story/rank-0", "story/rank-1"])


class Console(Told):
    def test_a_pipe_gets_plain_lines_at_the_log_frequency(self):
        node = self.story(log_every=25, tensorboard=False)
        lines = node.out.splitlines()
        self.assertEqual([line.split(" | ")[0] for line in lines],
                         ["step 25/100", "step 50/100", "half of it is done",
                          "validation after step 50", "step 75/100", "step 100/100"])
        self.assertRegex(lines[0], r"^step 25/100 \| epoch 0 \| loss 0\.4000 \| lr 1\.00e-03 \| "
                                   r"20,400 tokens/s \| 0:00:0\d left$")
        self.assertEqual(lines[3],
                         "validation after step 50 | loss 0.5000 | accuracy 25.00 % | 1.0 s")

    def test_only_rank_0_speaks(self):
        self.assertEqual(self.story(rank=1, tensorboard=False).out, "half of it is done\n")

    def on_terminal(self, *command, columns=100, term="xterm-256color"):
        terminal = Terminal([str(word) for word in command],
                            interop.environment(TERM=term, STORY_PAUSE_MS="5"), self.folder,
                            columns=columns)
        self.addCleanup(terminal.end)
        self.assertEqual(terminal.wait(), 0, str(terminal))
        return terminal.screen.decode()

    def assertBar(self, screen, columns):
        """What a person saw: `screen` had a bar, it fit, and was gone before each other line."""
        drawn = re.findall(r"\r([^\r\n\x1b]+)\x1b\[K", screen)
        self.assertGreater(len(drawn), 1, screen)
        self.assertLess(len(drawn), 60, "redrawn too often")
        for bar in drawn:
            self.assertLess(len(bar), columns, bar)
            self.assertRegex(bar, r"^ *\d+% ")
        lines = [re.sub(r".*\r\x1b\[K", "", line.rstrip("\r")) for line in screen.split("\n")]
        self.assertEqual([line.split(" | ")[0] for line in lines if line],
                         ["half of it is done", "validation after step 50", "step 100/100"])

    def test_a_terminal_shows_one_line_that_other_lines_clear(self):
        words = [0, 0, 1, 100, 100, 10, self.folder / "metrics"]
        self.assertBar(self.on_terminal(STORY, *words), 100)
        self.assertBar(self.on_terminal(STORY, *words, columns=30), 30)

    def test_the_line_passes_through_ddprun_on_a_terminal(self):
        words = [0, 0, 1, 100, 100, 10, self.folder / "metrics"]
        screen = self.on_terminal(interop.DDPRUN, "--standalone", "--nproc-per-node", 1, STORY,
                                  *words)
        self.assertRegex(screen, r"\r *\d+% \[[#.]+\] \d+/100 \| loss ")

    def test_a_dumb_terminal_gets_plain_lines(self):
        screen = self.on_terminal(STORY, 0, 0, 1, 100, 100, 50, self.folder / "metrics",
                                  term="dumb")
        self.assertNotIn("\x1b", screen)
        self.assertIn("step 50/100 | ", screen)


class Pictures(Told):
    def setUp(self):
        need_module("matplotlib")
        super().setUp()
        self.metrics = self.folder / "metrics"

    def plot(self, *words, code=0):
        done = subprocess.run([str(w) for w in (sys.executable, PLOT, *words)], text=True,
                              capture_output=True, timeout=interop.PATIENCE,
                              env={**interop.environment(), "MPLCONFIGDIR": str(self.folder)})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_a_run_with_a_restart_is_drawn_with_the_cause(self):
        for rank in (0, 1):
            self.story(rank=rank, last=60, tensorboard=False)
        ended = json.loads((self.metrics / "rank-0.jsonl").read_text().splitlines()[-1])["time"]
        moment = subprocess.run(["date", "-u", "-d", f"@{ended + 0.001:.3f}",
                                 "+%Y-%m-%dT%H:%M:%S.%3NZ"], capture_output=True, text=True).stdout
        (self.metrics / "events.jsonl").write_text(json.dumps(
            {"event": "incident", "time": moment.strip(), "kind": "worker_failed"}) + "\n")
        for rank in (0, 1):
            self.story(rank=rank, attempt=1, first=41, tensorboard=False)
        self.plot(self.metrics)
        self.assertTrue((self.metrics / "training.png").read_bytes().startswith(PNG))
        drawn = (self.metrics / "training.svg").read_text()
        for words in ("story: 100 steps, 1 restart", "worker failed, ", "loss of steps done again",
                      "step (optimizer updates)", "throughput (tokens/s)", "validation loss"):
            self.assertIn(words, drawn)

    def test_a_run_without_restarts_has_no_marks(self):
        self.story(tensorboard=False)
        self.plot(self.metrics, "--out", self.folder / "other")
        drawn = (self.folder / "other.svg").read_text()
        self.assertIn("story: 100 steps", drawn)
        self.assertNotIn("restart", drawn)
        self.assertFalse((self.metrics / "training.svg").exists())

    def test_what_cannot_be_drawn_is_one_sentence(self):
        (self.folder / "rank-0.jsonl").write_text('{"event":"run","unit":"tokens"')
        empty = self.folder / "empty"
        empty.mkdir()
        for folder, sentence in [
                (empty, f"plot: {empty} holds no rank-N.jsonl; name the directory of a run's metrics"),
                (self.folder, f"plot: {self.folder / 'rank-0.jsonl'} tells of no step yet"),
                (self.folder / "none", f"plot: {self.folder / 'none'} is no directory")]:
            self.assertEqual(self.plot(folder, code=1).stderr, sentence + "\n")
        for record, sentence in [
                ('{"event":"step"}', f"{empty}: a record lacks the field 'loss'; name the metrics"),
                ('{"event":"step","attempt":0,"step":1,"loss":"x"}', f"{empty}: a record ")]:
            (empty / "rank-0.jsonl").write_text(record + "\n")
            told = self.plot(empty, code=1).stderr
            self.assertTrue(told.startswith("plot: " + sentence), told)
            self.assertEqual(told.count("\n"), 1, told)
        self.story(tensorboard=False)
        told = self.plot(self.metrics, "--out", empty / "none" / "x", code=1).stderr
        self.assertRegex(told, r"^plot: \S+x.svg: No such file or directory; --out names another.*\n$")


if __name__ == "__main__":
    interop.main()
