"""Cells and tables of the results page, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.figures import Figures, Spread


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is text, the others are numbers."""
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, ""])


def number(value: float | None, form: str) -> str:
    """Format a number; a dash if there is none."""
    return "-" if value is None else format(value, form)


def spread(values: Spread | None, form: str) -> str:
    """Format the median and, where they differ, the smallest and largest.

    >>> spread(Spread(0.5, 0.4, 0.7), ".2f"), spread(Spread(0.5, 0.5, 0.5), ".2f")
    ('0.50 [0.40, 0.70]', '0.50')
    """
    if values is None:
        return "-"
    middle, low, high = (format(x, form) for x in (values.median, values.low, values.high))
    return middle if low == high else f"{middle} [{low}, {high}]"


def times(value: float | None) -> str:
    """Format a ratio to about two digits.

    >>> times(2.345), times(23.45), times(None)
    ('2.3', '23', '-')
    """
    return "-" if value is None else format(value, ".1f" if value < 10 else ".0f")


def memory(one: Figures) -> str:
    """Format the peak until the last round ended and, in parentheses, until the process ended."""
    if one.memory_mib is None or one.whole_memory_mib is None:
        return "-"
    return f"{one.memory_mib:.0f} ({one.whole_memory_mib:.0f})"


def rate(one: Figures, gflop: float | None, peak: float | None, *, is_same: bool) -> str:
    """Format GFLOP/s and their share of the sgemm peak; a dash if the work differs."""
    if gflop is None or one.round_s is None or not is_same:
        return "-"
    reached = gflop / one.round_s.median
    return f"{reached:.1f}" if peak is None else f"{reached:.1f} ({100 * reached / peak:.0f} %)"


def listed(numbers: Sequence[int]) -> str:
    """Join the different values of a number over the runs.

    >>> listed([2, 3])
    '2 or 3'
    """
    return " or ".join(str(number) for number in numbers)
