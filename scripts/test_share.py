#!/usr/bin/env python3
"""test_share BUILD_DIR SHARE SEED [CTEST-OPTION...]: which tests `scripts/test --share` runs, of those
that ctest would run with these options. SHARE is 1/N, or LABEL=1/N: then all without the label run.
The same SEED draws the same tests. Prints ctest's options for them, and how many are left out."""
import hashlib
import re
import subprocess
import sys


def parse(share):
    """(label or None, N) of "1/3" or "interop=1/2"."""
    said = re.fullmatch(r"(?:([\w-]+)=)?1/([1-9]\d*)", share)
    if not said:
        raise ValueError(f"--share {share}: it is 1/N, or LABEL=1/N")
    return said[1], int(said[2])


def is_drawn(name, seed, of):
    """One in `of`, by name: a test that is added moves no other one."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "big") % of == 0


def draw(tests, labelled, seed, of):
    """The numbers to run, of {number: name}; all that are not among `labelled`."""
    return [number for number, name in sorted(tests.items())
            if number not in labelled or is_drawn(name, seed, of)]


def listed(build, options):
    """{number: name} of what ctest would run."""
    done = subprocess.run(["ctest", "--test-dir", build, "-N", *options], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"test: ctest cannot list the tests of {build}: {done.stderr.strip()}")
    return {int(number): name
            for number, name in re.findall(r"^ *Test +#(\d+): (.*)$", done.stdout, re.M)}


def main():
    if len(sys.argv) < 4 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    build, share, seed, *options = sys.argv[1:]
    try:
        label, of = parse(share)
    except ValueError as error:
        sys.exit(f"test: {error}")
    tests = listed(build, options)
    drawn = draw(tests, listed(build, [*options, "-L", f"^{label}$"]) if label else tests, seed, of)
    if not drawn:
        sys.exit(f"test: --share {share} leaves none of {len(tests)} tests")
    print("-I", "0,0,0," + ",".join(map(str, drawn)), len(tests) - len(drawn))


if __name__ == "__main__":
    main()
