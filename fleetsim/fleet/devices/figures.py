"""Figures of device, radio and price files: a value, its source, and the range of its quantity."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StringConstraints

from fleetsim.schema.ranges import DrawW, MemoryGib, PowerW, RateBitPerS, VoltageV
from fleetsim.settings import Settings

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
LogSd = Annotated[float, Field(ge=0.0, le=1.0)]
"""Standard deviation of a natural logarithm; at 1 one figure in twenty is off by a factor of 7."""


class Sourced(Settings):
    """A number and where it comes from."""

    source: Text
    """Publication, or computation, that the value comes from."""
    inferred: bool = False
    """True if it was neither measured on this device nor published for it."""
    log_sd: LogSd | None = None
    """Standard deviation of its natural logarithm, where known; None: that of its mark in
    `fleet.uncertainty`."""


class Figure(Sourced):
    """A number and where it comes from; a subclass gives the range of its quantity."""

    value: float


class EfficiencyFigure(Figure):
    """A ratio of powers, and where it comes from."""

    value: Annotated[float, Field(ge=1e-3, le=1.0)]


class ShareFigure(EfficiencyFigure):
    """A share of a whole, and where it comes from."""


class GflopPerSFigure(Figure):
    """A rate of computing, up to 10 PFLOP/s."""

    value: Annotated[float, Field(ge=1e-6, le=1e7)]


class PeakFigure(GflopPerSFigure):
    """A rate that is computed from the cores and only shown."""


class RatioFigure(Figure):
    """A rate over another."""

    value: Annotated[float, Field(ge=1e-6, le=1e3)]


class ModulationFigure(RatioFigure):
    """Bits per second and hertz of a modulation and coding, which a standard lists."""


class SecondsFigure(Figure):
    """An overhead or a delay, up to some hours."""

    value: Annotated[float, Field(ge=1e-9, le=1e4)]


class DelayFigure(Figure):
    """An overhead or a tail in seconds, which may be 0."""

    value: Annotated[float, Field(ge=0.0, le=1e4)]


class PowerFigure(Figure):
    """A power that is never 0."""

    value: PowerW


class BitPerSFigure(Figure):
    """A rate of a cable."""

    value: RateBitPerS


class MbitPerSFigure(Figure):
    """A rate of a radio, in Mbit/s."""

    value: Annotated[float, Field(ge=1e-6, le=1e7)]


class DbmFigure(Figure):
    """A transmit power."""

    value: Annotated[float, Field(ge=-100.0, le=100.0)]


class ChargeFigure(Figure):
    """A charge of a full battery."""

    value: Annotated[float, Field(ge=1.0, le=1e7)]


class VoltFigure(Figure):
    """A voltage of a battery."""

    value: VoltageV


class GibFigure(Figure):
    """An amount of memory."""

    value: MemoryGib


class CreditsFigure(Figure):
    """A number of CPU credits."""

    value: Annotated[float, Field(ge=1e-3, le=1e6)]


class LaunchCreditsFigure(Figure):
    """A number of CPU credits that may be 0."""

    value: Annotated[float, Field(ge=0.0, le=1e6)]


class KelvinPerWattFigure(Figure):
    """A thermal resistance."""

    value: Annotated[float, Field(ge=1e-3, le=1e3)]


class TimeConstantFigure(Figure):
    """Seconds in which a skin warms up."""

    value: Annotated[float, Field(ge=1e-3, le=1e6)]


class DrawFigure(Figure):
    """A power that may be 0."""

    value: DrawW


class SlopeFigure(Figure):
    """Power per rate of a radio, in mW per Mbit/s."""

    value: Annotated[float, Field(ge=0.0, le=1e6)]


class CountFigure(Sourced):
    """A whole number above 0, and where it comes from."""

    value: Annotated[int, Field(ge=1, le=1_000_000)]


class FiguresFile(Sourced):
    """Several numbers that belong together, and where they come from."""

    values: Annotated[tuple[Annotated[float, Field(ge=1e-6, le=1000.0)], ...], Field(min_length=1)]


def figures(part: Settings, prefix: str = "") -> Iterator[tuple[str, Sourced]]:
    """Yield all figures with their key paths, such as `compute.phi.gemm`."""
    for key in type(part).model_fields:
        match getattr(part, key):
            case Sourced() as figure:
                yield prefix + key, figure
            case Settings() as below:
                yield from figures(below, f"{prefix}{key}.")
