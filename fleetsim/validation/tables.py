"""Checks, estimates, sections and Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray
from fleetsim.rounding import ROUNDING_SLACK

Kind = Literal["fit", "prediction", "exact", "theory", "count"]
"""`fit`: the figure was chosen to match it. `prediction`: nothing was adjusted to it. `exact`: a
closed form that the code must equal, except for rounding. `theory`: a random quantity against its
law, inside an interval. `count`: a statistic of a data set, by our code and by another."""

Z = 4.0
"""Half width of an interval in standard errors: one seed in 16,000 is outside."""


@dataclass(frozen=True, slots=True)
class Check:
    """Figure of a model beside the expected one."""

    what: str
    kind: Kind
    expected: float
    """Measured figure, or that of a closed form."""
    model: float
    unit: str
    source: str

    @property
    def error(self) -> float:
        """Relative error; absolute where zero is expected."""
        gap = self.model - self.expected
        return gap / self.expected if self.expected else gap

    def cells(self) -> tuple[str, ...]:
        """Return a row of a table; figures that differ by rounding only are equal on any host."""
        unit = f" {self.unit}" if self.unit else ""
        is_same = abs(self.error) < ROUNDING_SLACK
        return (
            self.what,
            self.kind,
            f"{number(self.expected, 4)}{unit}",
            f"{number(self.expected if is_same else self.model, 4)}{unit}",
            percent(self.error),
            self.source,
        )

    @staticmethod
    def table(checks: Iterable[Check]) -> str:
        """Return checks as a table."""
        head = ("what", "kind", "measured or exact", "model", "error", "source")
        return table(head, [check.cells() for check in checks])

    @staticmethod
    def mean_and_worst(checks: Sequence[Check]) -> tuple[str, str]:
        """Return the mean and the largest error of checks in percent, without signs."""
        errors = np.abs([check.error for check in checks])
        mean, worst = (float(error) for error in (errors.mean(), errors.max()))
        return percent(mean, signed=False), percent(worst, signed=False)

    @staticmethod
    def errors_text(checks: Sequence[Check]) -> str:
        """Return the mean and the largest error of checks, as text."""
        if max(abs(check.error) for check in checks) < ROUNDING_SLACK:
            return "met to rounding"
        mean, worst = Check.mean_and_worst(checks)
        return f"error {worst}" if len(checks) == 1 else f"mean error {mean}, worst {worst}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean over draws of the simulator beside its theoretical value."""

    HEAD: ClassVar = ("what", "theory", "simulator", "interval", "inside")

    what: str
    theory: float
    simulated: float
    half_width: float
    """Z theoretical standard errors."""

    @property
    def is_inside(self) -> bool:
        """Return whether the simulated mean is in the interval."""
        return abs(self.simulated - self.theory) <= self.half_width

    def cells(self) -> tuple[str, ...]:
        """Return a row of a table, to the second digit of the interval."""
        decimals = max(0, 1 - math.floor(math.log10(self.half_width)))
        return (
            self.what,
            f"{self.theory:.{decimals}f}",
            f"{self.simulated:.{decimals}f}",
            f"+- {self.half_width:.{decimals}f}",
            "yes" if self.is_inside else "**no**",
        )

    @classmethod
    def mean(cls, what: str, theory: float, sample: FloatArray, variance: float) -> Estimate:
        """Return a sample's mean beside the theoretical one; `variance` is that of the theory."""
        half_width = Z * math.sqrt(variance / sample.size)
        return cls(what, theory, float(np.mean(sample)), half_width)

    @staticmethod
    def table(estimates: Iterable[Estimate]) -> str:
        """Return estimates as a table."""
        return table(Estimate.HEAD, [estimate.cells() for estimate in estimates])


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """Line of the summary."""

    what: str
    kind: Kind
    num_points: int
    message: str

    @classmethod
    def of(cls, what: str, checks: Sequence[Check]) -> SummaryLine:
        """Return the number of checks, which are of one kind, with their errors."""
        return cls(what, checks[0].kind, len(checks), Check.errors_text(checks))

    @classmethod
    def inside(cls, what: str, estimates: Sequence[Estimate]) -> SummaryLine:
        """Return the number of estimates, and of those inside their intervals."""
        inside = f"{sum(e.is_inside for e in estimates)} of {len(estimates)} inside {Z:g} s.e."
        return cls(what, "theory", len(estimates), inside)


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """Section of the page."""

    title: str
    text: str
    verdicts: tuple[SummaryLine, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """Figures by the stem of their files."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits, without an exponent unless it is tiny.

    >>> [number(x) for x in (0.0, 28.2407, 1694.2, 0.05468, 3.3e-6, -2.0)]
    ['0', '28.2', '1694', '0.0547', '3.30e-06', '-2.00']
    """
    if value == 0.0:
        return "0"
    if abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    magnitude = math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, digits - 1 - magnitude)}f}"


def percent(share: float, *, signed: bool = True) -> str:
    """Return a share in percent, to a tenth below a hundred.

    >>> [percent(x) for x in (0.0, -0.0432, 14.1, 4e-9)]
    ['0 %', '-4.3 %', '+1410 %', '0 %']
    """
    if abs(share) < 5e-4:
        return "0 %"
    hundredfold = 100.0 * share
    digits = 1 if abs(hundredfold) < 100.0 else 0
    return f"{hundredfold:{'+' if signed else ''}.{digits}f} %"
