"""Parts of drawings in SVG, whose colours are those of the style sheet in either scheme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from matplotlib.ticker import MaxNLocator

_RATIOS = (1, 0.5, 2, 0.25, 4, 0.1, 10, 0.7, 1.4, 0.8, 1.2, 0.9, 1.1, 0.05, 20, 0.01, 100)
"""Ratios that an axis may show, the most welcome first."""
_NUM_TICKS = 4
_LEAST_GAP = 34.0
"""Units between the numbers of an axis of ratios."""


def svg(kind: str, width: float, height: float, words: str, parts: Iterable[str]) -> str:
    """Return a drawing in units of its text's pixels, with a text that replaces it."""
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img"'
        f' aria-label="{escape(words)}">{"".join(parts)}</svg>'
    )


def path(kind: str, data: str) -> str:
    """Return lines of a kind, which the style sheet colours."""
    return f'<path class="{kind}" d="{data}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", *, turned: float = 0.0) -> str:
    """Return words at a place, turned by degrees if asked; they are escaped."""
    place = f'x="{x:g}" y="{y:g}"'
    if turned:
        place = f'transform="translate({x:g} {y:g}) rotate({turned:g})"'
    return f'<text {place} text-anchor="{anchor}">{escape(words)}</text>'


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis from `low` to `high`, drawn between the units `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    @classmethod
    def from_zero(cls, largest: float, start: float, end: float) -> Axis:
        """Return an axis from 0 to a round number that is at least `largest`.

        >>> Axis.from_zero(0.93, 0.0, 1.0).high
        1.0
        """
        return cls(0.0, float(_round_numbers(largest)[-1]), start, end)

    def at(self, value: float) -> float:
        """Return the place of a value in units; values beyond the axis are at its ends.

        >>> Axis(0.25, 4.0, 0.0, 10.0, is_log=True).at(1.0), Axis(0.0, 1.0, 0.0, 10.0).at(2.0)
        (5.0, 10.0)
        """
        scale = math.log if self.is_log else float
        low, high, own = map(scale, (self.low, self.high, min(max(value, self.low), self.high)))
        return round(self.start + (self.end - self.start) * (own - low) / (high - low), 1)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the places of some round numbers, and the numbers."""
        if not self.is_log:
            for value in _round_numbers(self.high):
                if value <= self.high * (1.0 + 1e-9):
                    yield self.at(value), f"{value:,.10g}"
            return
        taken: list[float] = []
        for value in _RATIOS:
            place = self.at(value)
            is_free = all(abs(place - other) >= _LEAST_GAP for other in taken)
            if self.low <= value <= self.high and is_free:
                taken.append(place)
                yield place, f"{value:g}"


def _round_numbers(largest: float) -> list[float]:
    return list(MaxNLocator(_NUM_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, largest))
