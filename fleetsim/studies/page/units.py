"""Costs and their ratios as text, and units for the axes of charts."""

import math

from fleetsim.report import quantities
from fleetsim.studies.settings import Metric
from fleetsim.studies.statistics.verdict import decimals_of

_QUANTITIES: dict[str, quantities.Quantity] = {"seconds": "s", "joules": "j"}
_UNITS = {"dollars": ("USD", "USD"), "grams": ("g", "g CO2e")}
"""Units in texts and at axes."""


def text(value: float | None, metric: str) -> str:
    """Return a cost with its unit, to three digits.

    >>> text(5400.0, "seconds"), text(12.0, "rounds"), text(0.5, "dollars"), text(None, "grams")
    ('90.0 min', '12.0', '0.500 USD', '-')
    """
    if value is None or math.isnan(value):
        return quantities.NOTHING
    if metric in _QUANTITIES:
        return quantities.text(value, _QUANTITIES[metric])
    unit, _ = _UNITS.get(metric, ("", ""))
    return f"{quantities.digits(value)} {unit}".rstrip()


def ratio(value: float, low: float = math.nan, high: float = math.nan) -> str:
    """Return a ratio to the baseline, in the digits that its interval leaves meaning.

    >>> ratio(0.8412), ratio(12.345), ratio(float("nan")), ratio(0.9981, 0.9971, 0.9992)
    ('0.84', '12.3', '-', '0.998')
    """
    if math.isnan(value):
        return quantities.NOTHING
    decimals = decimals_of(1.0, low, high)
    return f"{value:.{decimals}f}" if 0.1 <= value < 10 else quantities.digits(value)


def interval(low: float, high: float) -> str:
    """Return an interval of ratios.

    >>> interval(0.61, 1.149), interval(0.9971, 0.9992)
    ('[0.61, 1.15]', '[0.997, 0.999]')
    """
    if math.isnan(low) or math.isnan(high):
        return quantities.NOTHING
    return f"[{ratio(low, low, high)}, {ratio(high, low, high)}]"


def ratio_with_interval(value: float, low: float, high: float) -> str:
    """Return a ratio with its interval, if there is one.

    >>> ratio_with_interval(0.84, 0.61, 1.149), ratio_with_interval(0.84, math.nan, math.nan)
    ('0.84 [0.61, 1.15]', '0.84')
    """
    text = f"{ratio(value, low, high)} {interval(low, high)}"
    return text.removesuffix(f" {quantities.NOTHING}")


def of_axis(largest: float, metric: Metric) -> tuple[float, str]:
    """Return the unit of an axis up to `largest`: its value, and its name (empty for rounds).

    >>> of_axis(9000.0, "seconds"), of_axis(30.0, "rounds")
    ((3600.0, 'h'), (1.0, ''))
    """
    if metric in _QUANTITIES:
        return quantities.unit_for(largest if math.isfinite(largest) else 0.0, _QUANTITIES[metric])
    return 1.0, _UNITS.get(metric, ("", ""))[1]


def p_text(p: float) -> str:
    """Return a p-value to two digits.

    >>> p_text(0.0004), p_text(0.0312), p_text(1.0), p_text(float("nan"))
    ('< 0.001', '0.031', '1', '-')
    """
    if math.isnan(p):
        return quantities.NOTHING
    if p < 0.001:
        return "< 0.001"
    return "1" if p >= 0.9995 else f"{p:.3f}"
