#!/usr/bin/env python3
"""test_share CTEST BUILD_DIR SHARE SEED [CTEST-OPTION...]: which tests `scripts/test --share` runs, of
those that this ctest would run with these options. SHARE is 1/N, or LABEL=1/N: then all without the
label run. The same SEED draws the same tests. Prints ctest's options for them, and how many are left
out."""
import hashlib
import re
import subprocess
import sys


def parse(share):
    """(label or None, N) of "1/3" or "interop=1/2"."""
    said = re.fullmatch(r"(?:([\w-]+)=)?1/([1-9][0-9]*)", share)
    if not said:
        raise ValueError(f"--share {share}: it is 1/N, or LABEL=1/N")
    return said[1], int(said[2])


def is_drawn(name, seed, of):
    """One in `of`, by name: a test that is added moves no other one."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "big") % of == 0


def draw(tests, labelled, seed, of):
    """The names to run, of `tests`; all that are not among `labelled`."""
    return [name for name in tests if name not in labelled or is_drawn(name, seed, of)]


def listed(ctest, build, options):
    """The names of what ctest would run, in its order."""
    done = subprocess.run([ctest, "--test-dir", build, "-N", *options], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"test: ctest cannot list the tests of {build}: {done.stderr.strip()}")
    return re.findall(r"^ *Test +#[0-9]+: (.*)$", done.stdout, re.M)


def options_of(tests, drawn):
    """ctest's -I counts what its other options leave, from 1; it does not take the numbers that it
    shows."""
    wanted = set(drawn)
    places = [str(place) for place, name in enumerate(tests, 1) if name in wanted]
    return ["-I", "0,0,0," + ",".join(places)]


def main():
    if len(sys.argv) < 5 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    ctest, build, share, seed, *options = sys.argv[1:]
    try:
        label, of = parse(share)
    except ValueError as error:
        sys.exit(f"test: {error}")
    tests = listed(ctest, build, options)
    labelled = set(listed(ctest, build, [*options, "-L", f"^{label}$"]) if label else tests)
    if not labelled:
        sys.exit(f"test: --share {share}: no test that would run has the label {label}")
    drawn = draw(tests, labelled, seed, of)
    if not drawn:
        sys.exit(f"test: --share {share} leaves none of {len(tests)} tests")
    chosen = options_of(tests, drawn)
    if listed(ctest, build, [*options, *chosen]) != drawn:
        sys.exit(f"test: {ctest} would not run the tests that --share {share} has drawn")
    print(*chosen, len(tests) - len(drawn))


if __name__ == "__main__":
    main()
