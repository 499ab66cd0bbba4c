"""mutate.py MUTATIONS OUT SOURCES...: writes OUT/<file>.cc, a copy of each file that the list names,
out of whichever folder of SOURCES has it, in which each mutation of it is chosen where the program runs (mutant.h), and prints the
mutations' names. A text that is not there exactly once is an error: the list has to follow the code."""
import pathlib
import re
import sys

# Where only an expression differs: what stands before it, the expression, what stands after it.
EXPRESSIONS = (r"(\s*return )(.*)(;| \|\|)", r"(\s*(?:\} else )?if \()(.*)(\) \{)",
               r"(\s*const \w+ \w+ = )(.*)(;)")


def mutations(text):
    for block in text.split("\n\n")[1:]:
        head, old, new = block.strip("\n").split("\n")
        name, file = head.split()
        if old[:1] != "-" or new[:1] != "+":
            raise SystemExit(f"mutations.txt: {name}: a line with '-' and one with '+' are expected")
        yield name, file, old[1:], new[1:]


def chosen(name, old, new):
    """A line that is either, by whether this mutation is the one at work."""
    asked = f'ddprun::sim::mutant_is("{name}")'
    for form in EXPRESSIONS:
        before, after = re.fullmatch(form, old), re.fullmatch(form, new)
        if before and after and before[1] == after[1] and before[3] == after[3]:
            kind = "bool" if before[1].strip().endswith("(") else ""  # an optional, say, in a condition
            return f"{before[1]}({asked} ? {kind}({after[2]}) : {kind}({before[2]})){before[3]}"
    return f"  if ({asked}) {{ {new.strip()} }} else {{ {old.strip()} }}"


def main():
    listed, out, *folders = (pathlib.Path(argument) for argument in sys.argv[1:])
    sources = {source.name: source for folder in folders for source in folder.glob("*.cc")}
    out.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, file, old, new in mutations(listed.read_text()):
        original = sources[file].read_text()
        if original.count(old) != 1:
            raise SystemExit(f"mutations.txt: {name}: {file} has this {original.count(old)} times, "
                             f"not once: {old.strip()}")
        text = files.get(file, '#include "tests/sim/mutant.h"\n' + original)
        if text.count(old) != 1:
            raise SystemExit(f"mutations.txt: {name}: another mutation has this line: {old.strip()}")
        files[file] = text.replace(old, chosen(name, old, new))
        sys.stdout.write(name + "\n")
    for stale in out.glob("*.cc"):
        if stale.name not in files:
            stale.unlink()
    for file, text in files.items():
        mutated = out / file
        if not mutated.exists() or mutated.read_text() != text:
            mutated.write_text(text)


main()
