"""--print-completion: the scripts do in the shells themselves what a user expects of the tab key.
usage: completion_test.py DDPRUN [TEST...]"""
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402

DDPRUN = os.path.abspath(sys.argv.pop(1))
BASH = """
source <("$0" --print-completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_ddprun
((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
exit 0
"""
# A key that writes the line as it is now to a file, so that a test sees what the tab key made of it.
ZSH = """
PS1= fpath=($fpath) PATH=$PATH
autoload -U compinit && compinit -u -d {folder}/dump
source <({ddprun} --print-completion zsh)
show() {{ print -r -- "$BUFFER" >>{folder}/shown }}
zle -N show && bindkey '^X' show
setopt no_beep no_list_ambiguous
print ready >{folder}/shown
"""
SECONDS = 30  # a bound


def script(shell):
    done = subprocess.run([DDPRUN, "--print-completion", shell], capture_output=True, text=True,
                          timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-completion-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "events.jsonl").touch()
        (self.folder / "train.py").touch()
        (self.folder / "logs").mkdir()
        (self.folder / "package").mkdir()
        (self.folder / "package" / "__init__.py").touch()


class Bash(InFolder):
    def offered(self, *words):
        """What comes for the last of the words, which are readline's: = and : are words of their own."""
        done = subprocess.run(["bash", "--norc", "-c", BASH, DDPRUN, "ddprun", *words],
                              capture_output=True, text=True, cwd=self.folder, timeout=SECONDS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_names(self):
        self.assertEqual(self.offered("--stand"), ["--standalone"])
        self.assertEqual(self.offered("--rdzv-e"), ["--rdzv-endpoint"])
        everything = self.offered("-")
        for name in ("--nnodes", "--help", "--print-completion", "-r"):
            self.assertIn(name, everything)

    def test_bash_completes_values_by_the_table(self):
        self.assertEqual(self.offered("--start-method", "f"), ["fork", "forkserver"])
        self.assertEqual(self.offered("--start_method", "=", "sp"), ["spawn"])
        self.assertEqual(self.offered("--print-completion", "="), ["bash", "zsh", "fish"])
        self.assertEqual(self.offered("--nproc-per-node", ""), ["cpu", "gpu", "auto"])
        self.assertEqual(self.offered("--nnodes", ""), [])
        self.assertEqual(sorted(self.offered("--log-dir", "")), ["logs", "package"])
        self.assertEqual(sorted(self.offered("--event-log", "")), ["events.jsonl", "logs", "package", "train.py"])
        self.assertEqual(self.offered("--event-log", "=", "ev"), ["events.jsonl"])

    def test_bash_knows_where_the_program_is(self):
        self.assertIn("train.py", self.offered("tr"))
        self.assertIn("true", self.offered("--nproc", "2", "--standalone", "-r", "3", "tr"))
        self.assertIn("true", self.offered("--rdzv-endpoint", "h", ":", "29400", "tr"))
        self.assertIn("true", self.offered("--nnodes", "=", "2", ":", "4", "--", "tr"))
        self.assertEqual(self.offered("train.py", "--stand"), [])
        self.assertEqual(self.offered("-m", "train.py", "ev"), ["events.jsonl"])
        for flag in ("-m", "--module", "--mod"):
            self.assertEqual(self.offered("--nnodes", "2", flag, ""), ["train", "package"])
        self.assertEqual(self.offered("-m", "tr"), ["train"])
        self.assertEqual(self.offered("-m", "--stand"), ["--standalone"])
        self.assertEqual(self.offered("--rdzv-endpoint", "h", ":", "29"), [])


class Zsh(InFolder):
    def test_zsh_completes_names_values_and_the_program(self):
        skip.need("program", shutil.which("zsh"), "zsh is not installed")
        (self.folder / ".zshrc").write_text(ZSH.format(folder=shlex.quote(str(self.folder)),
                                                       ddprun=shlex.quote(DDPRUN)))
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.environ.update(ZDOTDIR=str(self.folder), TERM="dumb")
            os.execvp("zsh", ["zsh", "-d", "-i"])
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.close, terminal)  # before it: the shell ends when its terminal is gone
        self.wait_for_lines(terminal, 1)
        asked = {"ddprun --standal": "ddprun --standalone ",
                 "ddprun --start-method sp": "ddprun --start-method spawn ",
                 "ddprun --rdzv-backend=st": "ddprun --rdzv-backend=static ",
                 "ddprun --event-log ev": "ddprun --event-log events.jsonl ",
                 "ddprun --log-dir l": "ddprun --log-dir logs/",
                 "ddprun --nnodes 2 trai": "ddprun --nnodes 2 train.py ",
                 "ddprun --nnodes 2 -m tr": "ddprun --nnodes 2 -m train ",
                 "ddprun --nnodes 2 --module pack": "ddprun --nnodes 2 --module package ",
                 "ddprun train.py --standal": "ddprun train.py --standal"}
        for at, line in enumerate(asked):
            os.write(terminal, f"\x15{line}\t\x18".encode())  # an empty line, and what is typed
            self.wait_for_lines(terminal, at + 2)
        self.assertEqual(self.shown()[1:], list(asked.values()))

    def shown(self):
        try:
            return (self.folder / "shown").read_text().splitlines()
        except FileNotFoundError:
            return []

    def wait_for_lines(self, terminal, count):
        deadline, output = time.monotonic() + SECONDS, b""
        while len(self.shown()) < count:
            self.assertLess(time.monotonic(), deadline, output)
            if select.select([terminal], [], [], 0.01)[0]:
                output += os.read(terminal, 4096)


class Fish(InFolder):
    def shown(self, line):
        """Each word that is offered, with its description."""
        skip.need("program", shutil.which("fish"), "fish is not installed")
        (self.folder / "ddprun.fish").write_text(script("fish"))
        done = subprocess.run(["fish", "--no-config", "-c", "source ddprun.fish; complete -C $argv", line],
                              capture_output=True, text=True, cwd=self.folder, timeout=SECONDS,
                              env={**os.environ, "HOME": str(self.folder)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict((one + "\t").split("\t")[:2] for one in done.stdout.splitlines())

    def offered(self, line):
        return list(self.shown(line))

    def test_fish_describes_options_and_leaves_values_as_they_are(self):
        self.assertRegex(self.shown("ddprun --standalo")["--standalone"], "^A job of this node only")
        self.assertRegex(self.shown("ddprun --preempt-n")["--preempt-notice"], "^Watch for the announce")
        self.assertEqual(self.shown("ddprun --rdzv-backend "),
                         {"c10d": "", "static": "", "etcd": "", "kubernetes": ""})
        self.assertEqual([name for name, told in self.shown("ddprun --").items() if not told], [])

    def test_fish_completes_names_values_and_the_program(self):
        self.assertEqual(self.offered("ddprun --stand"), ["--standalone"])
        self.assertEqual(sorted(self.offered("ddprun --start-method ")), ["fork", "forkserver", "spawn"])
        self.assertEqual(self.offered("ddprun --rdzv-backend=st"), ["--rdzv-backend=static"])
        self.assertIn("events.jsonl", self.offered("ddprun --event-log ev"))
        self.assertEqual(self.offered("ddprun --log-dir "), ["logs/", "package/"])
        for flag in ("-m", "--module"):
            self.assertEqual(self.offered(f"ddprun --nnodes 2 {flag} "), ["package", "train"])
        self.assertEqual(self.offered("ddprun -m --stand"), ["--standalone"])
        self.assertIn("true", self.offered("ddprun --nnodes 2 --standalone tru"))
        self.assertIn("events.jsonl", self.offered("ddprun --nnodes 2 cat ev"))
        self.assertEqual(self.offered("ddprun cat --standalo"), [])


class Ddpctl(unittest.TestCase):
    """Its scripts are written by hand, so they are held against its help."""
    PACKAGING = ROOT / "packaging"
    BASH = """
source "$0"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_ddpctl
((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
exit 0
"""

    def verbs(self):
        ddpctl = pathlib.Path(DDPRUN).parent / "ddpctl"
        done = subprocess.run([ddpctl, "--help"], capture_output=True, text=True, timeout=SECONDS)
        return re.findall(r"^  ([a-z]+) ", done.stdout.partition("Subcommands:")[2], re.M)

    def test_all_scripts_and_the_man_page_know_all_its_commands(self):
        verbs = self.verbs()
        self.assertIn("status", verbs)
        for name in ("ddpctl.bash", "ddpctl.zsh", "ddpctl.fish", "ddpctl.1.in"):
            text = (self.PACKAGING / name).read_text()
            for verb in verbs:
                with self.subTest(f"{name}: {verb}"):
                    self.assertRegex(text, rf"(\b|B){verb}\b")  # \fBtop\fR

    def offered(self, *words):
        done = subprocess.run(["bash", "--norc", "-c", self.BASH, self.PACKAGING / "ddpctl.bash", "ddpctl",
                               *words], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_commands_and_their_options(self):
        self.assertEqual(sorted(self.offered("s")), ["save", "stacks", "status", "stop"])
        self.assertEqual(self.offered("status", "--js"), ["--json"])
        self.assertEqual(self.offered("--job", "x", "logs", "--f"), ["--follow"])
        self.assertEqual(self.offered("--job", ""), [])
        self.assertEqual(self.offered("stop", "--json"), [])


class Train(unittest.TestCase):
    """Its scripts are made from its options (packaging/train_reference.cc)."""
    PACKAGING = pathlib.Path(DDPRUN).parent.parent / "packaging"

    def names(self, command):
        """What its own help calls the long options of a command, by their first names."""
        train = pathlib.Path(DDPRUN).parent / "train"
        done = subprocess.run([train, command, "--help"], capture_output=True, text=True,
                              timeout=SECONDS)
        return re.findall(r"^  (?:-\w,)?(--[\w-]+)", done.stdout, re.M)

    def test_all_scripts_and_the_man_page_know_the_options_of_all_commands(self):
        for command in ("linear", "gpt2", "resnet"):
            names = self.names(command)
            self.assertIn("--data", names)
            for script, before in (("train.bash", "--"), ("train.zsh", "--"), ("train.fish", "-l "),
                                   ("train.1", r"\-\-")):
                text = (self.PACKAGING / script).read_text()
                self.assertIn(command, text)
                for name in names:
                    name = name[2:].replace("-", r"\-") if script == "train.1" else name[2:]
                    with self.subTest(f"{script}: {command} {name}"):
                        self.assertRegex(text, re.escape(before + name) + r"\b")

    def offered(self, *words):
        code = Ddpctl.BASH.replace("_ddpctl", "_train")
        done = subprocess.run(["bash", "--norc", "-c", code, self.PACKAGING / "train.bash", "train",
                               *words], capture_output=True, text=True, timeout=SECONDS, cwd=ROOT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_commands_and_their_options_and_values(self):
        self.assertEqual(sorted(self.offered("")), sorted(["--help", "--version", "linear", "gpt2",
                                                           "resnet", "message-passing"]))
        self.assertEqual(self.offered("gpt2", "--val"), ["--validation-share"])
        self.assertEqual(self.offered("linear", "--val"), [])
        self.assertEqual(self.offered("linear", "--data", "READ"), ["README.md"])
        self.assertEqual(self.offered("linear", "--data", "=", "READ"), ["README.md"])
        self.assertEqual(self.offered("resnet", "--data", "train"), ["trainer"])
        self.assertEqual(self.offered("gpt2", "--save_dir", "READ"), [])
        self.assertEqual(self.offered("gpt2", "-b", ""), [])

    def test_zsh_and_fish_find_no_mistake_in_theirs(self):
        for shell in ("zsh", "fish"):
            with self.subTest(shell):
                skip.need("program", shutil.which(shell), f"{shell} is not installed")
                done = subprocess.run([shell, "-n", self.PACKAGING / f"train.{shell}"],
                                      capture_output=True, text=True, timeout=SECONDS)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class Refused(unittest.TestCase):
    def test_another_shell_is_no_choice(self):
        done = subprocess.run([DDPRUN, "--print-completion", "tcsh"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("give one of bash, zsh, fish", done.stderr)


if __name__ == "__main__":
    skip.main()
