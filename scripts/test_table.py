#!/usr/bin/env python3
"""test_table RESULTS.xml [LEFT_OUT]: what ctest ran (its JUnit file), as a table: run, passed, failed,
skipped by reason; and how many `scripts/test --share` left out. Exits with 1 where a test was skipped
without saying what it needs, and where CI=true is set and it needs something that CI can have."""
import collections
import os
import re
import sys
import xml.etree.ElementTree

# What a machine of CI may lack for good; everything else a test may need (root, namespaces, pytorch
# ...) it can have. `program`: one that scripts/setup does not install, since one test looks at it;
# `kubernetes`: a server that takes four minutes to compile.
CI_LACKS = {"gpu", "cuda", "headers", "kernel", "bf16", "program", "kubernetes"}


def read(path):
    """Per test: (name, passed | failed | skipped | other, what the skip says: (need, reason))."""
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        state = {"run": "passed", "fail": "failed", "notrun": "skipped"}.get(case.get("status"), "other")
        output = case.findtext("system-out") or ""
        said = re.search(r"^skipped: needs (\w+): (.*)$", output, re.M)
        yield case.get("name"), state, said.groups() if said else None


def table(tests, ci, left_out=0):
    """(lines, whether all is well) of what read() gives."""
    counts = collections.Counter(state for _, state, _ in tests)
    ran = counts["passed"] + counts["failed"] + counts["other"]
    lines = ["", f"{'tests run':<12}{ran:>6}", f"{'passed':<12}{counts['passed']:>6}",
             f"{'failed':<12}{counts['failed'] + counts['other']:>6}",
             f"{'skipped':<12}{counts['skipped']:>6}"]
    if left_out:
        lines.append(f"{'left out':<12}{left_out:>6}")
    reasons, wrong = collections.defaultdict(list), []
    for name, state, said in tests:
        if state != "skipped":
            continue
        need, reason = said or ("?", "it does not say what it needs")
        reasons[need, reason].append(name)
        if said is None or (ci and need not in CI_LACKS):
            wrong.append(name)
    for (need, reason), names in sorted(reasons.items()):
        lines.append(f"{len(names):>18}  needs {need}: {reason}")
    for name in wrong:
        lines.append(f"test: may not be skipped{' in CI' if ci else ''}: {name}")
    lines.append(f"{counts['passed']} passed, {counts['failed'] + counts['other']} failed, "
                 f"{counts['skipped']} skipped" + (f", {left_out} left out" if left_out else ""))
    return lines, not wrong


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    left_out = int(sys.argv[2]) if len(sys.argv) == 3 else 0
    lines, good = table(list(read(sys.argv[1])), os.environ.get("CI") == "true", left_out)
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
