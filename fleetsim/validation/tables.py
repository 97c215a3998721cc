"""Checks, estimates and sections, whose words are templates of Markdown in `sections/`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import jinja2
import numpy as np
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray
from fleetsim.rounding import ROUNDING_SLACK
from fleetsim.units import MS_PER_S

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

    @property
    def size(self) -> float:
        """Error without its sign."""
        return abs(self.error)

    @property
    def shown(self) -> float:
        """The model's figure; those that differ by rounding only are equal on any host."""
        return self.expected if abs(self.error) < ROUNDING_SLACK else self.model


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean over draws of the simulator beside its theoretical value."""

    what: str
    theory: float
    simulated: float
    half_width: float
    """Z theoretical standard errors."""

    @property
    def is_inside(self) -> bool:
        """Return whether the simulated mean is in the interval."""
        return abs(self.simulated - self.theory) <= self.half_width

    @property
    def decimals(self) -> int:
        """Decimals of the second digit of the interval."""
        return max(0, 1 - math.floor(math.log10(self.half_width)))

    @classmethod
    def mean(cls, what: str, theory: float, sample: FloatArray, variance: float) -> Estimate:
        """Return a sample's mean beside the theoretical one; `variance` is that of the theory."""
        half_width = Z * math.sqrt(variance / sample.size)
        return cls(what, theory, float(np.mean(sample)), half_width)


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
        return cls(what, checks[0].kind, len(checks), errors_text(checks))

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


def mean_and_worst(checks: Sequence[Check]) -> tuple[str, str]:
    """Return the mean and the largest error of checks in percent, without signs."""
    errors = np.abs([check.error for check in checks])
    return percent(float(errors.mean()), signed=False), percent(float(errors.max()), signed=False)


def errors_text(checks: Sequence[Check]) -> str:
    """Return the mean and the largest error of checks, as text."""
    if max(abs(check.error) for check in checks) < ROUNDING_SLACK:
        return "met to rounding"
    mean, worst = mean_and_worst(checks)
    return f"error {worst}" if len(checks) == 1 else f"mean error {mean}, worst {worst}"


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


def anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub and the site make it.

    >>> anchor("Phones: a lower clock")
    'phones-a-lower-clock'
    """
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


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


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("fleetsim.validation", "sections"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {
    "number": number,
    "numbers": lambda values, by: by.join(map(number, values)),
    "change": percent,
    "percent": lambda share: percent(share, signed=False),
    "ms": lambda seconds: number(seconds * MS_PER_S),
    "zip": lambda *columns: zip(*columns, strict=True),
    "anchor": anchor,
    "errors": errors_text,
    "mean_error": lambda checks: mean_and_worst(checks)[0],
    "worst_error": lambda checks: mean_and_worst(checks)[1],
}


def filled(name: str, **values: object) -> str:
    """Return the text of a template of `sections/` with these values.

    Filters write numbers: `number`, `numbers`, `ms` of seconds, `percent` without a sign and
    `change` with one, and sum up checks: `errors`, `mean_error`, `worst_error`. `anchor` is that of
    a heading, `zip` is Python's.
    """
    return _TEMPLATES.get_template(f"{name}.md.j2").render(values)
