"""Errors of device and radio figures, drawn for each seed (`fleet.uncertainty`).

A figure x with the standard deviation s of its mark (inferred or measured), or with its own
`log_sd` where the file states one, becomes

    x' = x f,  f = exp(s z),  z standard normal;
    x' = f x / (1 - x + f x)  if x is a ratio that cannot exceed 1: f multiplies its odds.

Then x' is clipped to the range of its quantity. z depends on the seed, the file in which the figure
is written and the figure's key path, and on nothing else. A figure of 0 stays 0.

No error is drawn of figures that are exact by their nature (`ExactFigure`), of settings of
firmware, and of any figure of a reproduction, which has the values of its publication by
definition. docs/device-speeds.md (Doubt about the figures) explains each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar, cast

from fleetsim import rng
from fleetsim.fleet.devices.figures import ExactFigure, Figure, LogSd, ShareFigure, figures
from fleetsim.fleet.devices.profile_files import DeviceFile, RadioFile
from fleetsim.schema.key_conditions import INFERRED_FIGURES, MEASURED_FIGURES, by_key
from fleetsim.settings import Settings

Hardware = Literal["device", "radio"]
FileT = TypeVar("FileT", bound=DeviceFile | RadioFile)


class UncertaintySettings(Settings):
    """Errors of the figures of devices and radios, drawn for each seed.

    All clients of a device, and all runs of a seed, have the same errors.
    """

    acts_if = by_key(inferred=INFERRED_FIGURES, measured=MEASURED_FIGURES)

    inferred: LogSd = 0.0
    """Standard deviation of the natural logarithm of figures that are marked `inferred`, such as
    0.3; the median is the figure. A figure whose file states its own (`log_sd`) has that instead.
    0: no error."""
    measured: LogSd = 0.0
    """The same of all other figures, such as 0.05."""

    def errors(self, seed: int) -> FigureErrors | None:
        """Return the errors of a seed; None if none is drawn."""
        if self.inferred == 0.0 and self.measured == 0.0:
            return None
        return FigureErrors(seed, inferred=self.inferred, measured=self.measured)


@dataclass(frozen=True, slots=True)
class DrawnFigure:
    """A figure of which an error was drawn."""

    hardware: Hardware
    name: str
    """Name of the device or radio: the stem of its file."""
    figure: str
    """Key path in the file, such as `compute.phi.gemm`."""
    sourced: float
    """Value in the file."""
    is_inferred: bool
    factor: float
    """Error f that was drawn."""
    used: float
    """Value with the error."""


@dataclass(frozen=True, slots=True)
class FigureErrors:
    """Errors of all figures in the fleets of one seed."""

    seed: int
    inferred: float
    """Standard deviation of the logarithm of inferred figures."""
    measured: float
    """The same of the other figures."""

    def factor(self, hardware: Hardware, origin: str, key: str, figure: Figure[float]) -> float:
        """Return the factor by which a figure at a key path is off.

        `origin` is the stem of the file that states it; a `log_sd` that it states itself replaces
        that of its mark, unless that is 0.
        """
        of_mark = self.inferred if figure.inferred else self.measured
        sd = of_mark if figure.log_sd is None or of_mark == 0.0 else figure.log_sd
        z = rng.stream(self.seed, f"{hardware} figure/{origin}/{key}").standard_normal()
        return math.exp(sd * float(z))

    def of(
        self, name: str, file: FileT, origin: Callable[[str], str]
    ) -> tuple[FileT, tuple[DrawnFigure, ...]]:
        """Return a file with errors, and its figures that have one.

        `name` is the stem of the file; `origin` returns that of the file that states a figure. A
        radio that sleeps between packets (`drx`) draws at most as much asleep as awake: `tail_w`
        is cut to the lower `base_w`, or, if `tail_w` has no error, `base_w` is raised to it.
        """
        hardware: Hardware = "device" if isinstance(file, DeviceFile) else "radio"
        drawn = {}
        for key, figure in uncertain_figures(file):
            if (self.inferred if figure.inferred else self.measured) == 0.0:
                continue
            factor = self.factor(hardware, origin(key), key, figure)
            drawn[key] = DrawnFigure(
                hardware=hardware,
                name=name,
                figure=key,
                sourced=figure.value,
                is_inferred=figure.inferred,
                factor=factor,
                used=off_by(figure, factor),
            )
        if isinstance(file, RadioFile) and file.drx is not None:
            _cut_sleep(file, drawn)
        return _with_values(file, drawn), tuple(drawn.values())


def uncertain_figures(file: DeviceFile | RadioFile) -> Iterator[tuple[str, Figure[float]]]:
    """Yield the figures of a file that can have an error, with their key paths."""
    if isinstance(file, DeviceFile) and file.reproduction is not None:
        return
    for key, figure in figures(file):
        if isinstance(figure, ExactFigure) or not isinstance(figure, Figure):
            continue
        if figure.value != 0.0:
            yield key, figure


def off_by(figure: Figure[float], factor: float) -> float:
    """Return the value of a figure that is off by a factor, in the range of its quantity."""
    value = figure.value * factor
    if isinstance(figure, ShareFigure):
        value /= 1.0 - figure.value + value
    low, high = _range_of(type(figure))
    return min(max(value, low), high)


@cache
def _range_of(quantity: type[Figure[float]]) -> tuple[float, float]:
    """Return the least and the greatest value that the schema of a quantity takes."""
    limits = quantity.model_json_schema()["properties"]["value"]
    return limits["minimum"], limits["maximum"]


def _cut_sleep(file: RadioFile, drawn: dict[str, DrawnFigure]) -> None:
    """Change errors such that the radio draws no more asleep than awake."""
    sourced = dict(uncertain_figures(file))
    bases = [key for key in ("receive.base_w", "transmit.base_w") if key in sourced]
    if "tail_w" in drawn:
        awake_w = [drawn[key].used if key in drawn else sourced[key].value for key in bases]
        tail = drawn["tail_w"]
        drawn["tail_w"] = replace(tail, used=min(tail.used, *awake_w))
        return
    for key in bases:
        if key in drawn:
            drawn[key] = replace(drawn[key], used=max(drawn[key].used, file.tail_w.value))


def _with_values(file: FileT, drawn: Mapping[str, DrawnFigure]) -> FileT:
    """Return a file with the values of these key paths replaced, checked as if it were read."""
    if not drawn:
        return file
    data = file.model_dump()
    for key, figure in drawn.items():
        part: Any = data
        for name in key.split("."):
            part = part[name]
        part["value"] = figure.used
    return cast(FileT, file.model_validate(data))
