"""What cpack and packaging/wheel.py make of a build: Debian packages and a Python wheel that install,
run, and say of themselves what is true. One version is in all of them.

usage: package_test.py CMAKE BUILD_DIR [TEST...]
       package_test.py CMAKE BUILD_DIR --full    installs the packages in a bare Debian 12 made for it,
                                                 runs a job and builds a trainer there; makes the wheel that
                                                 is given away, and installs it in a Debian 11; as root,
                                                 with a network"""
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "scripts")]
import skip  # noqa: E402
from free_port import free_port  # noqa: E402
from program import wait_until  # noqa: E402

CMAKE, BUILD = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
VERSION = re.search(r"^project\(ddprun VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
CONSUMER = {"CMakeLists.txt": """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(ddp REQUIRED)
add_executable(consumer main.cc)
target_link_libraries(consumer PRIVATE ddp::ddp)
""", "main.cc": """
#include <ddp/ddp.h>

#include <cstdio>

int main() {
  return ddp::record([] {
    const ddp::Context context = ddp::init();
    const ddp::Tensor sum = ddp::Tensor::from({context.rank() + 1.0F});
    context.group().all_reduce(sum);
    std::printf("%g\\n", sum.item<float>());
    return 0;
  });
}
"""}


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          **{"timeout": 240, **more})
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def make_debs(folder):
    """(ddprun, ddprun-dev)"""
    run(CMAKE.parent / "cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder)
    [programs] = folder.glob("ddprun_*.deb")
    [development] = folder.glob("ddprun-dev_*.deb")
    return programs, development


def write_consumer(folder):
    folder.mkdir()
    for name, text in CONSUMER.items():
        (folder / name).write_text(text)


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)


class Deb(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        skip.need("debian", shutil.which("dpkg-shlibdeps"), "no dpkg-dev")
        cls.debs = make_debs(cls.folder)
        cls.root = cls.folder / "root"
        for deb in cls.debs:
            run("dpkg-deb", "-x", deb, cls.root)

    def field(self, deb, name):
        return run("dpkg-deb", "-f", deb, name).strip()

    def test_the_debian_packages_install_and_a_trainer_builds_against_them(self):
        programs, development = self.debs
        self.assertEqual([self.field(deb, "Version") for deb in self.debs], [VERSION] * 2)
        self.assertIn(f"ddprun (= {VERSION})", self.field(development, "Depends"))
        for library in ("libc6 (>= ", "libgloo", "libdnnl"):
            self.assertIn(library, self.field(programs, "Depends"))
        usr = self.root / "usr"
        for name in ("bin/ddprun", "bin/ddpctl", "bin/train", "share/man/man1/ddprun.1.gz",
                     "share/man/man1/ddpctl.1.gz", "share/bash-completion/completions/ddpctl",
                     "share/man/man1/train.1.gz", "share/bash-completion/completions/train",
                     "share/zsh/vendor-completions/_train",
                     "share/fish/vendor_completions.d/train.fish",
                     "share/zsh/vendor-completions/_ddpctl",
                     "share/fish/vendor_completions.d/ddpctl.fish",
                     "lib/systemd/system/ddprun@.service", "share/doc/ddprun/copyright",
                     "share/doc/ddprun/examples/slurm.sbatch", "share/doc/ddprun/docs/preemption.md",
                     "share/bash-completion/completions/ddprun", "share/zsh/vendor-completions/_ddprun",
                     "share/fish/vendor_completions.d/ddprun.fish", "include/ddp/ddp.h",
                     "share/doc/ddprun-dev/copyright"):
            self.assertTrue((usr / name).is_file(), name)
        self.assertFalse([line for line in run("dpkg-deb", "-c", programs).splitlines()
                          if "/include/" in line or line.endswith(".cmake")])
        # What is unpacked runs: `train` is found beside ddprun, and finds its library.
        out = run(usr / "bin/ddprun", "--standalone", "--nproc-per-node", "2", "train", "linear", "2",
                  "1", cwd=self.folder)
        self.assertIn("Training finished: 2 epochs", out)
        write_consumer(self.folder / "consumer")
        run(CMAKE, "-G", "Ninja", "-S", self.folder / "consumer", "-B", self.folder / "made",
            f"-DCMAKE_PREFIX_PATH={usr}")
        run(CMAKE, "--build", self.folder / "made")
        out = run(usr / "bin/ddprun", "--standalone", "--nproc-per-node", "2",
                  self.folder / "made/consumer")
        self.assertEqual(out, "3\n3\n")
        (self.folder / "consumer/CMakeLists.txt").write_text(
            CONSUMER["CMakeLists.txt"].replace("REQUIRED", "REQUIRED COMPONENTS gloo"))
        with self.assertRaisesRegex(AssertionError, "it has no components, and was asked for: gloo"):
            run(CMAKE, "-G", "Ninja", "-S", self.folder / "consumer", "-B", self.folder / "refused",
                f"-DCMAKE_PREFIX_PATH={usr}")


class Lintian(Folder):
    def test_lintian_finds_nothing_in_the_debian_packages(self):
        skip.need("program", shutil.which("lintian"), "lintian is not installed")
        # Who answers for them, and how to reach them, is the affair of who builds them.
        apart = "bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact"
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning",
                               "--suppress-tags", apart, *make_debs(self.folder)], text=True,
                              capture_output=True, timeout=240)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done)


class Script(unittest.TestCase):
    def test_scripts_package_refuses_what_it_cannot_make(self):
        done = subprocess.run([ROOT / "scripts/package", "rpm"], text=True, capture_output=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, "package: there is no package rpm: give deb, wheel or nothing\n")


class Version(Folder):
    def test_one_version_is_in_all_that_is_built(self):
        for name in ("ddprun", "ddpctl", "train"):
            self.assertEqual(run(BUILD / "bin" / name, "--version"), f"{name} {VERSION}\n")
            self.assertIn(f'"{name} {VERSION}"', (BUILD / f"packaging/{name}.1").read_text())
        config = (BUILD / "worker_runtime/ddprunConfigVersion.cmake").read_text()
        self.assertIn(f'set(PACKAGE_VERSION "{VERSION}")', config)


class Wheel(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wheel = pathlib.Path(run(sys.executable, ROOT / "packaging/wheel.py", BUILD / "bin",
                                     VERSION, cls.folder).strip())

    def test_the_wheel_says_which_glibc_it_needs(self):
        version, minor = re.fullmatch(r"ddprun-(\S+?)-py3-none-manylinux_2_(\d+)_\w+\.whl",
                                      self.wheel.name).groups()
        self.assertEqual(version, VERSION)
        newest = 0
        for program in ("ddprun", "ddpctl"):
            with zipfile.ZipFile(self.wheel) as zipped:
                (self.folder / "carried").write_bytes(
                    zipped.read(f"ddprun-{VERSION}.data/scripts/{program}"))
            # By another tool than the one that chose the name.
            needed = run("readelf", "-W", "--version-info", self.folder / "carried")
            newest = max(newest, *map(int, re.findall(r"Name: GLIBC_2\.(\d+)", needed)))
        self.assertEqual(newest, int(minor))

    def test_the_wheel_installs_and_runs_a_job_of_two_agents(self):
        made = subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], capture_output=True)
        skip.need("program", made.returncode == 0, "Python has no venv: install python3-venv")
        bin_dir = self.folder / "venv/bin"
        python, script = bin_dir / "python", self.folder / "worker.py"
        run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", self.wheel)
        for program in ("ddprun", "ddpctl"):
            self.assertEqual(run(bin_dir / program, "--version"), f"{program} {VERSION}\n")
        script.write_text("import os, sys\nprint(os.environ['RANK'], sys.executable)\n"
                          "sys.exit(int(sys.argv[1]))\n")
        self.two_agents(python, script)
        self.as_torchrun(python, script)
        self.signals_of_a_caller(python)
        done = subprocess.run([python, "-m", "ddprun.accelerate", "launch"], text=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^ddprun: python -m ddprun.accelerate needs PyTorch and accelerate \(.*\n$")

    def test_the_program_is_found_where_pip_was_given_a_folder(self):
        skip.need("program", importlib.util.find_spec("pip") is not None, "Python has no pip: install python3-pip")
        target = self.folder / "deep/er/site"
        run(sys.executable, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", "--quiet",
            "--target", target, self.wheel)
        # What lies where the package's list of files points to is another program.
        (self.folder / "deep/bin").mkdir()
        shutil.copy("/bin/false", self.folder / "deep/bin/ddprun")
        for words in (["-m", "ddprun"], ["-m", "ddprun.torchrun"]):
            self.assertEqual(run(sys.executable, *words, "--version", env={**os.environ, "PYTHONPATH": str(target)}),
                             f"ddprun {VERSION}\n")
        (target / "bin/ddprun").unlink()
        done = subprocess.run([sys.executable, "-m", "ddprun"], env={**os.environ, "PYTHONPATH": str(target)},
                              text=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (1, "ddprun: the program of the Python package ddprun is not "
                                                             "where pip has put it; install the package again\n"))

    def two_agents(self, python, script):
        command = [python, "-m", "ddprun", "--nnodes", "2", "--rdzv-endpoint",
                   f"127.0.0.1:{free_port()}", script, "0"]
        agents = [subprocess.Popen([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE) for _ in range(2)]
        try:
            said = [agent.communicate(timeout=120) for agent in agents]
        finally:
            for agent in agents:
                agent.kill()
        self.assertEqual([agent.returncode for agent in agents], [0, 0], said)
        # Under the Python that was started, though its environment is not activated.
        self.assertEqual(sorted(out for out, _ in said), [f"0 {python}\n", f"1 {python}\n"])

    def signals_of_a_caller(self, python):
        """Those that ddprun handles are for the job, and nothing is left of it when its caller is killed."""
        caller = ("import ddprun.torchrun\n"
                  "ddprun.torchrun.main(['--standalone', '--', 'sh', '-c', 'echo $$$$; exec sleep 300'])\n")
        for number, code in ((signal.SIGHUP, 1), (signal.SIGUSR1, 75), (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(signal=number), subprocess.Popen(
                    [python, "-c", caller], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) as called:
                worker = int(called.stdout.readline())
                called.send_signal(number)
                self.assertEqual(called.wait(60), code)
                wait_until(lambda: not pathlib.Path(f"/proc/{worker}").exists(), "the worker's end")

    def as_torchrun(self, python, script):
        """By name, and called: it comes back after a job that succeeded, else ends as ddprun does."""
        self.assertEqual(run(python, "-m", "ddprun.torchrun", "--standalone", script, "0"),
                         f"0 {python}\n")
        caller = ("import ddprun.torchrun, sys\n"
                  "ddprun.torchrun.main(['--standalone', sys.argv[1], '0'])\nprint('went on')\n"
                  "ddprun.torchrun.main(['--standalone', sys.argv[1], '3'])\nprint('not here')\n")
        done = subprocess.run([python, "-c", caller, script], text=True, capture_output=True,
                              timeout=120)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("went on", done.stdout)
        self.assertNotIn("not here", done.stdout)


OLDER = "bullseye"  # Debian 11: glibc 2.31
GLIBC_OLDEST = 28


def in_root(bare):
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={bare}/proc", "chroot",
            bare, "sh", "-euc"]


def full_wheel(folder, mirror, report):
    """The wheel of scripts/package, where glibc is older than the one of the system that it is made on."""
    bare = folder / "older"
    wheel = pathlib.Path(report("the wheel", ROOT / "scripts/package", "wheel").split()[-1])
    newest = int(re.search(r"-manylinux_2_(\d+)_", wheel.name)[1])
    if newest > GLIBC_OLDEST:
        sys.exit(f"package_test: {wheel.name} needs a glibc newer than 2.{GLIBC_OLDEST}")
    report("debootstrap", "debootstrap", "--variant=minbase", "--include=python3-venv", OLDER, bare, mirror)
    shutil.copy(wheel, bare / "tmp")
    agent = "bin/python -m ddprun --nnodes 2 --rdzv-endpoint localhost:29400 --no-python printenv RANK"
    out = report("a job in Debian 11", *in_root(bare),
                 f"cd /tmp; python3 -m venv v; cd v; bin/pip -q install --no-index ../{wheel.name}; "
                 f"bin/ddpctl --version; {agent} & {agent}; wait $!")
    if sorted(out.split("\n")) != ["", "0", "1", f"ddpctl {VERSION}"]:
        sys.exit(f"package_test: {out}")


def full():
    """Both packages in a Debian 12 of their own, by apt, so that it is apt who finds what they need."""
    from setup_test import SUITE, mirrors, report
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("package_test: --full needs root and debootstrap")
    lines = mirrors()
    base = [line.split()[1] for line in lines if f" {SUITE} " in line]
    if not base:
        sys.exit(f"package_test: apt knows no mirror of Debian 12 ({SUITE})")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-bare-"))
    try:
        bare = folder / "root"
        debs = make_debs(folder)
        report("debootstrap", "debootstrap", "--variant=minbase", SUITE, bare, base[0])
        (bare / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
        shutil.copy("/etc/resolv.conf", bare / "etc/resolv.conf")
        for deb in debs:
            shutil.copy(deb, bare / "tmp")
        write_consumer(bare / "tmp/consumer")
        inside = in_root(bare)
        apt = "DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "
        report("install ddprun", *inside, f"apt-get -q update; {apt} /tmp/{debs[0].name}")
        out = report("a job", *inside, "cd /tmp; ddprun --version; "
                     "ddprun --standalone --nproc-per-node 2 train linear 3 1")
        if f"ddprun {VERSION}" not in out or "Training finished: 3 epochs" not in out:
            sys.exit(f"package_test: {out}")
        report("install ddprun-dev", *inside, f"{apt} g++ make cmake /tmp/{debs[1].name}")
        out = report("a trainer", *inside, "cd /tmp; cmake -S consumer -B made; cmake --build made; "
                     "ddprun --standalone --nproc-per-node 2 made/consumer")
        if not out.endswith("3\n3\n"):
            sys.exit(f"package_test: {out}")
        report("remove", *inside, "apt-get -q purge -y ddprun ddprun-dev; "
               "test ! -e /usr/bin/ddprun -a ! -e /usr/include/ddp")
        full_wheel(folder, base[0], report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--full"]:
        full()
    else:
        skip.main()
