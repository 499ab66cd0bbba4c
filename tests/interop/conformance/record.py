"""A worker in Python whose main is recorded: what it does comes as its argument."""
import sys

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    what = sys.argv[1]
    if what == "raise":
        raise ValueError("of no value")
    if what == "nested":
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError("outer") from error
    if what.startswith("exit"):
        sys.exit(int(what[4:]))


main()
