"""mutate.py MUTATIONS SOURCES OUT: writes OUT/<name>.cc, a copy of the file in SOURCES with its one
text replaced, for each mutation of the list, and prints the names. A text that is not there exactly
once is an error: the list has to follow the code."""
import pathlib
import sys


def mutations(text):
    for block in text.split("\n\n")[1:]:
        head, old, new = block.strip("\n").split("\n")
        name, file = head.split()
        if old[:1] != "-" or new[:1] != "+":
            raise SystemExit(f"mutations.txt: {name}: a line with '-' and one with '+' are expected")
        yield name, file, old[1:], new[1:]


def main():
    listed, sources, out = (pathlib.Path(argument) for argument in sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    for name, file, old, new in mutations(listed.read_text()):
        text = (sources / file).read_text()
        if text.count(old) != 1:
            raise SystemExit(f"mutations.txt: {name}: {file} has this {text.count(old)} times, "
                             f"not once: {old.strip()}")
        mutant, mutated = out / f"{name}.cc", text.replace(old, new)
        if not mutant.exists() or mutant.read_text() != mutated:
            mutant.write_text(mutated)
        sys.stdout.write(name + "\n")


main()
