"""Makes a Python wheel that carries the built ddprun and ddpctl, for `pip install` beside PyTorch. A wheel
is a zip with a list of its files (PEP 427), so Python's own library is enough.

usage: wheel.py PROGRAMS VERSION FOLDER    PROGRAMS: the folder that has them; prints the wheel's path

The platform in its name is what is true of these very binaries: manylinux_2_X says that any Linux with
glibc 2.X or newer can run them (PEP 600), so X is the newest version of a glibc symbol in them; and they
may link what every such Linux has, and nothing else."""
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("ddprun", "ddpctl")
# Of PEP 600's list: the parts of glibc.
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
LOADERS = re.compile(r"ld-linux.*\.so\.\d")
METADATA = """Metadata-Version: 2.1
Name: ddprun
Version: {version}
Summary: Native elastic launcher for distributed training, with torchrun's command line
License: MIT
Requires-Python: >=3.8
Description-Content-Type: text/markdown

`ddprun` and `ddpctl` are put on the PATH: the programs themselves, without Python. `python -m ddprun` and
`python -m ddprun.torchrun` take the same options and run workers with that Python.
"""


def objdump(option, binary):
    return subprocess.run(["objdump", option, binary], check=True, capture_output=True,
                          text=True).stdout


def glibc_needed(binary):
    """(2, X): the newest version of glibc that a symbol of the binary has."""
    found = re.findall(r"\(?GLIBC_(\d+)\.(\d+)(?:\.\d+)?\)?", objdump("-T", binary))
    if not found:
        sys.exit(f"wheel: {binary} has no symbol of glibc; give one that is linked dynamically")
    return max((int(major), int(minor)) for major, minor in found)


def refuse_other_libraries(binary):
    needed = re.findall(r"NEEDED\s+(\S+)", objdump("-p", binary))
    others = [name for name in needed if name not in GLIBC and not LOADERS.fullmatch(name)]
    if others:
        sys.exit(f"wheel: {binary} needs {', '.join(others)}, which not every Linux has; build it in "
                 "Release with DDPRUN_STATIC_RUNTIME=ON")


def stripped(binary, folder):
    """A copy without symbols for debuggers, as in the Debian package."""
    copy = folder / f"{binary.name}.stripped"
    subprocess.run(["strip", "-o", copy, binary], check=True)
    content = copy.read_bytes()
    copy.unlink()
    return content


class Wheel:
    """Adds files, and notes each for RECORD."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, content, mode=0o644):
        content = content.encode() if isinstance(content, str) else content
        # A date of its own, so that the same build gives the same wheel.
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")

    def close(self, info):
        self.record.append(f"{info}/RECORD,,")
        self.zip.writestr(f"{info}/RECORD", "\n".join(self.record) + "\n")
        self.zip.close()


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    built, version, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    programs = [built / name for name in PROGRAMS]
    for program in programs:
        refuse_other_libraries(program)
    major, minor = max(map(glibc_needed, programs))
    tag = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
    folder.mkdir(parents=True, exist_ok=True)
    path, info = folder / f"ddprun-{version}-{tag}.whl", f"ddprun-{version}.dist-info"
    wheel = Wheel(path)
    for module in sorted((HERE / "wheel").glob("*.py")):
        wheel.add(f"ddprun/{module.name}", module.read_bytes())
    # pip puts them into the folder of programs as they are: no Python runs before them.
    for program in programs:
        wheel.add(f"ddprun-{version}.data/scripts/{program.name}", stripped(program, folder), 0o755)
    wheel.add(f"{info}/METADATA", METADATA.format(version=version))
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: ddprun\nRoot-Is-Purelib: false\nTag: {tag}\n")
    wheel.add(f"{info}/LICENSE", (HERE.parent / "LICENSE").read_bytes())
    wheel.close(info)
    print(path)


if __name__ == "__main__":
    main()
