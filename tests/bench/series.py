"""Repeated measurements of one thing, as text: the median, the number of runs, and the range of the
middle half of them. What could not be measured is a dash, never an error."""
import math
import statistics

DASH = "-"
# unit: (factor, what is written behind the number)
UNITS = {"s": (1e3, " ms"), "MiB": (1, " MiB"), "KiB": (1 / 1024, " KiB"), "ms": (1, " ms"), "us": (1e6, " us"),
         "%": (100, " %"), "": (1, "")}


def number(value):
    """Three digits, or all in front of the point."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


class Series:
    """None among the values: a run that gave none."""

    def __init__(self, values=()):
        values = values if isinstance(values, (list, tuple)) else [values]
        self.runs = len(values)
        self.values = sorted(v for v in values if v is not None and math.isfinite(v))

    def __bool__(self):
        return bool(self.values)

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None

    def text(self, unit="", with_runs=True):
        if not self.values:
            return DASH
        factor, behind = UNITS[unit]
        median = f"{number(self.median * factor)}{behind}"
        if not with_runs:
            return median
        runs = f"n={self.runs}" if self.runs == len(self.values) else (
            f"{len(self.values)} of n={self.runs}")
        if len(self.values) == 1:
            return f"{median} ({runs})"
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return f"{median} ({runs}, {number(low * factor)}-{number(high * factor)})"


def ratio(more, less):
    """None where it cannot be had."""
    return more / less if more is not None and less is not None and less > 0 else None


def exponent(points):
    """Of the power of n that fits best, in logarithms, to (n, value): 1 is linear. None where there
    are fewer than two points, or a value is 0: a time too short to be seen has no logarithm."""
    if len(points) < 2 or not all(n > 0 and value and value > 0 for n, value in points):
        return None
    xs, ys = [math.log(n) for n, _ in points], [math.log(value) for _, value in points]
    mean_x, mean_y = statistics.mean(xs), statistics.mean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return (sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / spread) if spread else None
