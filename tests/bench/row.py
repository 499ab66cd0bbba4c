"""A row of the tables of scripts/bench: what it says, and what it promises."""
import dataclasses

from series import DASH, UNITS, Series, ratio


@dataclasses.dataclass
class Target:
    """`met` of a row: None when the row has no such value. `beside`: it compares with the other side."""
    text: str
    met: callable
    beside: bool = False

    def told(self, row):
        met = self.met(row)
        return self.text + ("" if met else ": **missed**" if met is False else ": not measured")


def times(least, more=False):
    text = f">= {least:g}x" + (" as many" if more else "")
    return Target(text, lambda row: None if row.ratio is None else row.ratio >= least, True)


def at_most(bound, unit):
    return Target(f"<= {_bound(bound, unit)}",
                  lambda row: row.ours.median <= bound if row.ours else None)


def at_least(bound, unit):
    return Target(f">= {_bound(bound, unit)}",
                  lambda row: row.ours.median >= bound if row.ours else None)


def _bound(value, unit):
    factor, behind = UNITS[unit]
    return f"{value * factor:,.10g}{behind}"


@dataclasses.dataclass
class Row:
    what: str
    ours: Series
    theirs: Series
    unit: str
    targets: tuple = ()
    more: bool = False  # more is better
    theirs_text: str = ""  # where there is no number
    floors: tuple = ()  # what scripts/bench --check holds
    digits: int = 1  # of a ratio below 10

    @property
    def ratio(self):
        ours, theirs = self.ours.median, self.theirs.median
        return ratio(ours, theirs) if self.more else ratio(theirs, ours)

    def line(self):
        times_text = DASH
        if self.ratio is not None:
            digits = self.digits if self.ratio < 10 else 0
            times_text = f"{self.ratio:,.{digits}f}x" + (" as many" if self.more else "")
        targets = "; ".join(target.told(self) for target in self.targets) or DASH
        return (f"| {self.what} | {self.ours.text(self.unit)} | "
                f"{self.theirs_text or self.theirs.text(self.unit)} | {times_text} | {targets} |")


def pair(found, take=lambda value: value):
    """Of both launchers, what `take` finds in each of their runs."""
    return [Series([None if run is None else take(run) for run in found.get(name, [])])
            for name in ("ddprun", "torchrun")]


def field(name):
    return lambda run: run.get(name)
