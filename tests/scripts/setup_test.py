"""scripts/setup: what it says when it cannot, that it does nothing where all is there, and that a bare
Debian 12 can install exactly what it lists (apt plans it, with nothing taken as installed).

usage: setup_test.py [TEST...]
       setup_test.py --full      makes a bare Debian 12 in a folder, and has setup install everything
                                 there, as root and as a user with sudo; half a gigabyte to download"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETUP = ROOT / "scripts" / "setup"
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402

SUITE = "bookworm"
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          **{"timeout": 600, "env": CLEAN, **more})


def listed():
    """The packages of scripts/setup."""
    text = re.search(r"^packages=\(\n(.*?)^\)", SETUP.read_text(), re.S | re.M)[1]
    return [word for line in text.splitlines() for word in line.split("#")[0].split()]


def mirrors():
    """Where this machine's apt has Debian 12 from: lines of a sources.list; empty where it has not."""
    if not shutil.which("apt-get"):
        return []
    found = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)",
                "Created-By: Packages").stdout.splitlines()
    return [f"deb {line}" for line in found
            if line.split()[1:] in ([SUITE, "main"], [f"{SUITE}-security", "main"])]


class Refusals(unittest.TestCase):
    """Each with a PATH that has only some programs."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-setup-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def setup_with(self, programs, *words, **scripts):
        """scripts/setup where only these programs are, and small ones of the test's own besides."""
        for name in ("bash", "dirname", "nproc", "grep", "sed", "env", *programs):
            (self.folder / name).symlink_to(shutil.which(name, path=CLEAN["PATH"]))
        for name, text in scripts.items():
            path = self.folder / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        return run(shutil.which("bash"), SETUP, *words, env={"PATH": str(self.folder)})

    def assertRefused(self, done, *texts):
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for text in ("setup: ", *texts):
            self.assertIn(text, done.stderr)

    def test_an_unknown_option(self):
        self.assertRefused(self.setup_with([], "--with-tensorflow"), "--with-tensorflow",
                           "--with-pytorch")

    def test_a_system_without_dpkg_is_told_what_to_install(self):
        self.assertRefused(self.setup_with(["id"]), "no Debian", *listed())

    def test_neither_root_nor_sudo(self):
        done = self.setup_with([], id="echo 1000", dpkg_query="exit 1", apt_get="exit 1")
        self.assertRefused(done, "neither root nor sudo", f"apt-get install {' '.join(listed())}")

    def test_a_user_with_sudo_installs_by_sudo(self):
        log = self.folder / "log"
        done = self.setup_with([], id="echo 1000", dpkg_query="exit 1",
                               apt_get="exit 1", sudo=f'echo "$@" >>{log}; exit 1')
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get update failed; is there a network?", done.stderr)
        self.assertRegex(log.read_text(), r"^env DEBIAN_FRONTEND=noninteractive apt-get .* update\n$")

    def test_an_installation_that_fails_names_the_packages(self):
        done = self.setup_with([], id="echo 0", dpkg_query="exit 1",
                               apt_get='case "$*" in *update*) exit 0; esac; exit 100')
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"could not install: {' '.join(listed())}", done.stderr)


class Here(unittest.TestCase):
    def test_where_all_is_there_it_does_nothing_and_says_so(self):
        skip.need("debian", shutil.which("dpkg-query"), "no dpkg")
        had = run("dpkg-query", "-W", *listed())
        skip.need("debian", had.returncode == 0, "a package of scripts/setup is missing here")
        with tempfile.TemporaryDirectory() as folder:
            forbidden = pathlib.Path(folder) / "apt-get"
            forbidden.write_text("#!/bin/sh\necho apt-get was called >&2; exit 1\n")
            forbidden.chmod(0o755)
            done = run(SETUP, env={**CLEAN, "PATH": f"{folder}:{CLEAN['PATH']}"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"setup: all {len(listed())} packages are there\n")


class Bare(unittest.TestCase):
    def test_a_bare_debian_can_install_what_is_listed(self):
        lines = mirrors()
        skip.need("debian", any(f" {SUITE} " in line for line in lines),
                  f"apt knows no mirror of Debian 12 ({SUITE})")
        with tempfile.TemporaryDirectory(prefix="ddprun-setup-") as name:
            folder = pathlib.Path(name)
            for path in ("state/lists/partial", "cache/archives/partial"):
                (folder / path).mkdir(parents=True)
            (folder / "sources.list").write_text("\n".join(lines) + "\n")
            (folder / "status").touch()  # nothing is installed
            apt = ["apt-get", "-q", "-o", f"Dir::State={folder}/state",
                   "-o", f"Dir::State::status={folder}/status", "-o", f"Dir::Cache={folder}/cache",
                   "-o", f"Dir::Etc::sourcelist={folder}/sources.list",
                   "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Sandbox::User="]
            update = run(*apt, "update", env=os.environ)
            skip.need("network", not re.search(r"^[EW]:", update.stderr, re.M), update.stderr)
            plan = run(*apt, "-s", "install", "--no-install-recommends", *listed(), env=os.environ)
            self.assertEqual(plan.returncode, 0, plan.stdout + plan.stderr)
            planned = set(re.findall(r"^Inst (\S+)", plan.stdout, re.M))
            self.assertEqual(set(listed()) - planned, set())


def full():
    """scripts/setup in a Debian 12 of its own, twice as root and once as a user with sudo."""
    if os.geteuid() != 0:
        sys.exit("setup_test: --full needs root")
    if not shutil.which("debootstrap"):
        sys.exit("setup_test: --full needs debootstrap: apt-get install debootstrap")
    lines = mirrors()
    base = [line.split()[1] for line in lines if f" {SUITE} " in line]
    if not base:
        sys.exit(f"setup_test: apt knows no mirror of Debian 12 ({SUITE})")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-bare-"))
    try:
        for user in ("root", "someone"):
            bare = folder / user
            report("debootstrap", "debootstrap", "--variant=minbase",
                   *(["--include=sudo"] if user != "root" else []), SUITE, bare, base[0])
            (bare / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
            shutil.copy("/etc/resolv.conf", bare / "etc/resolv.conf")
            shutil.copytree(ROOT / "scripts", bare / "src/scripts")
            inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child",
                      f"--mount-proc={bare}/proc", "chroot", bare]
            if user != "root":
                report("user", *inside, "useradd", "-m", user)
                (bare / "etc/sudoers.d/all").write_text(f"{user} ALL=(ALL) NOPASSWD: ALL\n")
                inside += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
            installed = report(f"setup as {user}", *inside, "/src/scripts/setup")
            again = report(f"setup as {user} again", *inside, "/src/scripts/setup")
            if "all packages are there now" not in installed or \
                    again != f"setup: all {len(listed())} packages are there\n":
                sys.exit(f"setup_test: as {user}: {installed}{again}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(what, *command):
    begin = os.times().elapsed
    done = run(*command, timeout=1800)
    print(f"{what}: {os.times().elapsed - begin:.0f} s", flush=True)
    if done.returncode:
        sys.exit(f"setup_test: {what} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["--full"]:
        full()
    else:
        skip.main()
