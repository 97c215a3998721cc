"""Seconds, joules and fractions as text."""

import math
from collections.abc import Sequence
from typing import Literal

from fleetsim.units import S_PER_DAY, S_PER_HOUR, S_PER_MINUTE

Quantity = Literal["s", "j"]

NOTHING = "-"
"""Text in the place of a missing number."""

# Units of a quantity, largest first: (value in SI, name, smallest value to use it from).
_UNITS: dict[Quantity, tuple[tuple[float, str, float], ...]] = {
    "s": (
        (S_PER_DAY, "days", 2 * S_PER_DAY),
        (S_PER_HOUR, "h", 2 * S_PER_HOUR),
        (S_PER_MINUTE, "min", 2 * S_PER_MINUTE),
        (1.0, "s", 0.0),
    ),
    "j": ((1e9, "GJ", 1e9), (1e6, "MJ", 1e6), (1e3, "kJ", 1e3), (1.0, "J", 0.0)),
}


def unit_for(largest: float, quantity: Quantity) -> tuple[float, str]:
    """Return the unit for an axis or a column up to `largest` (in SI): value in SI, name.

    >>> unit_for(9000.0, "s")
    (3600.0, 'h')
    >>> unit_for(0.0, "j")
    (1.0, 'J')
    """
    for value, name, smallest in _UNITS[quantity]:
        if largest >= smallest:
            return value, name
    raise ValueError(f"largest must be a number >= 0, got {largest!r}")


def text(value: float | None, quantity: Quantity) -> str:
    """Return a value in SI with a suitable unit, to three digits.

    >>> text(5400.0, "s"), text(1.5e6, "j"), text(0.25, "j"), text(None, "s")
    ('90.0 min', '1.50 MJ', '0.250 J', '-')
    """
    if value is None or math.isnan(value):
        return NOTHING
    factor, name = unit_for(value, quantity)
    return f"{digits(value / factor)} {name}"


def some(names: Sequence[str], most: int, separator: str = "; ") -> str:
    """Return the first few of many names, and the number of the others.

    >>> some(["a", "b", "c"], 2)
    'a; b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def digits(value: float | None) -> str:
    """Return a number to three digits, or to as many as it has before the point.

    >>> digits(1234567.8), digits(999.7), digits(12.0), digits(0.0), digits(float("nan"))
    ('1,234,568', '1,000', '12.0', '0', '-')
    """
    if value is None or math.isnan(value):
        return NOTHING
    if value == 0.0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def count(number: float | None) -> str:
    """Return a whole number as text.

    >>> count(1234), count(None), count(float("nan"))
    ('1,234', '-', '-')
    """
    return NOTHING if number is None or math.isnan(number) else f"{number:,.0f}"


def percent(fraction: float | None) -> str:
    """Return a fraction in percent.

    >>> percent(0.8123), percent(0.0), percent(None)
    ('81.2 %', '0.0 %', '-')
    """
    if fraction is None or math.isnan(fraction):
        return NOTHING
    return f"{fraction:.1%}".replace("%", " %")


def target(accuracy: float) -> str:
    """Return a target accuracy in percent, without extra digits.

    >>> target(0.8), target(0.925)
    ('80 %', '92.5 %')
    """
    return f"{accuracy * 100:.6g} %"
