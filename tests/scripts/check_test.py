"""Every rule of scripts/check finds what it is there for, and leaves the rest alone: a small tree
of bad files, each with the findings it must give, and nothing else."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check"
MARK = "TO" + "DO"
GOOD = """// Good: a header that all rules like; what it says about new things and sleep_for is a comment.
#pragma once

#include <string>

namespace ddprun {

/// Says "new Foo" and 'x' without being stopped.
inline std::string good() { return "printf( new Foo detached"; }

}  // namespace ddprun
"""


def in_header(code):
    return "// A class.\n#pragma once\n" + code


LONG = "void f() {\n" + "  g();\n" * 70 + "}\n"
JUST_SHORT_ENOUGH = "void f() {\n" + "  g();\n" * 68 + "}\n"

# path -> (content, rules that must fire, in order of line)
FILES = {
    "agent/good.h": (GOOD, []),
    "rendezvous/base/up.cc": ('#include "agent/good.h"\n', ["include_directions"]),
    "worker_runtime/sideways.cc": ('#include "rendezvous/control/join.h"\n', ["include_directions"]),
    "worker_runtime/fine.cc": ('#include "rendezvous/store/client.h"\n#include <ddp/ddp.h>\n', []),
    "trainer/deep.cc": ('#include "rendezvous/store/client.h"\n#include <ddp/ddp.h>\n',
                        ["include_directions"]),
    "agent/output/summary.cc": ("#include <boost/asio/ip/tcp.hpp>\nauto t = steady_clock::now();\n",
                                ["include_directions", "unit_tests", "banned_calls"]),
    "agent/output/log_filter.cc": ("int x;\n", []),
    "tests/unit/agent/log_filter_test.cc": ("void t() { sleep_for(1); }\n", ["banned_calls"]),
    "agent/calls.cc": ("auto* a = new Foo();\nauto b = new Foo();  // allowed: private constructor\n"
                       "void c() { printf(\"x\"); }\nvoid d() { fprintf(stderr, \"x\"); }\n"
                       "Foo(const Foo&) = delete;\nvoid e() { delete a; }\n"
                       "spawn(io, job(), detached);\nspdlog::info(\"x\");\nassert(a);\n",
                       ["banned_calls"] * 6),
    "agent/owned.cc": ("auto w = std::unique_ptr<W>(new W(1));\nauto o = Owner(\n    new W(1));\nusing namespace ddprun;\n", []),
    "trainer/main.cc": ("void c() { printf(\"x\"); }\n", []),
    "agent/long.cc": (LONG, ["function_lengths"]),
    "agent/short.cc": ("namespace a {\n" + JUST_SHORT_ENOUGH * 3 + "}\n", []),
    "agent/wide.cc": ("// " + "x" * 98 + "\n// " + "x" * 97 + "\n", ["sizes"]),
    "agent/huge.cc": ("\n" * 451, ["sizes"]),
    "agent/full.cc": ("\n" * 450, []),
    "tests/unit/agent/huge_test.cc": ("\n" * 601, ["sizes"]),
    "tests/unit/agent/full_test.cc": ("\n" * 600, []),
    "tests/unit/membership/membership_test.cc": ("int x;\n", []),
    "agent/crowd.h": (in_header("class Crowd {\n public:\n  Crowd() : a_(1) {}\n"
                                + "".join(f"  void f{i}() {{ a_ = {i}; }}\n" for i in range(40))
                                + " private:\n  int a_ = {0};\n};\n"), ["class_sizes"]),
    "agent/pockets.h": (in_header("struct Pockets {\n  bool any() const;\n"
                                  + "".join(f"  int a{i} = f(1);\n" for i in range(21)) + "};\n"
                                  ).replace("f(1)", "int(1)"), ["class_sizes"]),
    "agent/roomy.h": (in_header("struct Roomy {\n  using R = int (*)(int);\n  enum class E { a, b };\n"
                                "  struct Inner { int i; int j; };\n"
                                + "".join(f"  void f{i}();\n" for i in range(40))
                                + "".join(f"  int a{i}{{}};\n" for i in range(20)) + "};\n"), []),
    "agent/value.h": (in_header("struct Value {\n"
                                + "".join(f"  int a{i} = 0;\n" for i in range(60)) + "};\n"), []),
    "agent/twice.h": (in_header("namespace ddprun {\nclass Twice;\nclass Twice {};\n}\n"), []),
    "agent/process/twice.h": (in_header("namespace ddprun::other {\nclass Twice {};\n}\n"), []),
    "rendezvous/base/twice.h": (in_header("namespace ddprun {\nstruct Twice {\n};\n}\n"),
                                ["type_names"]),
    "agent/boost.h": ("// Boost in it.\n#pragma once\n#include <boost/version.hpp>\n",
                      ["boost_in_headers"]),
    "rendezvous/control/connection.h": ("// Without it now.\n#pragma once\n", ["boost_in_headers"]),
    "rendezvous/base/result.h": ("// What hides it.\n#pragma once\n#include <boost/version.hpp>\n", []),
    "agent/CMakeLists.txt": ("\n" * 61, ["sizes"]),
    "agent/util.cc": (f"// {MARK}: later\n// see /Us" + "ers/you/file\n",
                      ["names_and_words"] * 3),
    "agent/words.cc": ("// Its re" + "igns, kEl" + "ectors.\nint sel" + "ector;\nint el" + "ector;\n"
                       "bool for" + "eign;\n", ["names_and_words"] * 2),
    "agent/merged.cc": ("// Two forms of it.\n" + "<" * 7 + " HEAD\n" + "=" * 7 + "\n" + ">" * 7 + " other\n",
                        ["names_and_words"] * 2),
    "agent/bare.h": ("int x;\n", ["header_basics", "header_basics"]),
    "agent/alone.h": ("// Alone.\n#pragma once\nstd::string x();\n", ["headers_alone"]),
    "agent/ugly.cc": ("int   x ;\n", ["formatting"]),
}


def shares(folder):
    """In many lines without comments and checks, and with hooks for all, each ratchet is named."""
    root = pathlib.Path(folder)
    (root / "scripts").mkdir()
    shutil.copy(CHECK, root / "scripts" / "check")
    for name in ("rendezvous/control", "rendezvous/membership"):
        (root / name).mkdir(parents=True)
    for i in range(12):
        (root / f"rendezvous/membership/part{i}.cc").write_text("int a;\n" * 440)
    hooks = root / "rendezvous/control/hooks.cc"
    hooks.write_text("std::function<void()> f;  // std::function\n" * 100)
    done = subprocess.run([sys.executable, root / "scripts" / "check", "--fast"], text=True,
                          capture_output=True)
    found = re.findall(r"^scripts/check:1: shares: .*?(comments|DDP_CHECK|std::function)", done.stdout,
                       re.M)
    wanted = ["DDP_CHECK", "comments", "std::function"]
    return [] if sorted(found) == wanted else [f"shares: wanted {wanted}, got {found}"]


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        failures += shares(folder)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "scripts").mkdir()
        shutil.copy(CHECK, root / "scripts" / "check")
        for name, (content, _) in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        done = subprocess.run([sys.executable, root / "scripts" / "check"], text=True,
                              capture_output=True)
        found = re.findall(r"^(\S+?):\d+: (\w+): ", done.stdout, re.M)
        for name, (_, wanted) in FILES.items():
            got = [rule for file, rule in found if file == name]
            if "formatting" not in wanted:  # these files are about something else
                got = [rule for rule in got if rule != "formatting"]
            if sorted(got) != sorted(wanted):
                failures.append(f"{name}: wanted {wanted}, got {got}")
        if done.returncode != 1:
            failures.append(f"exit code {done.returncode}, not 1")
        for name, (_, wanted) in FILES.items():
            if wanted or name == "agent/short.cc":
                (root / name).unlink()
        (root / "trainer/main.cc").unlink()
        (root / "tests/unit/agent/log_filter_test.cc").write_text("int x;\n")
        clean = subprocess.run([sys.executable, root / "scripts" / "check"], text=True,
                               capture_output=True)
        clean_findings = [l for l in clean.stdout.split("\n")
                          if ": " in l and "formatting" not in l and not l.startswith("check: ")]
        if clean_findings:
            failures.append(f"findings in a clean tree: {clean_findings}")
    print("\n".join(failures) or f"{len(FILES)} files, all as wanted")
    if failures:
        print(done.stdout, done.stderr)
    return 1 if failures else 0


sys.exit(main())
