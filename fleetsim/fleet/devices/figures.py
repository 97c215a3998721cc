"""Figures of device, radio and price files: a value, its source, and the range of its quantity."""

from collections.abc import Iterator
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, StringConstraints

from fleetsim.schema.ranges import DrawW, MemoryGib, PowerW, RateBitPerS, VoltageV
from fleetsim.settings import Settings

ValueT = TypeVar("ValueT", bound=float)
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


class Figure(Sourced, Generic[ValueT]):
    """A number and where it comes from; the parameter is the range of its quantity."""

    value: ValueT

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Return a name without dots, by which pickle finds the class."""
        return f"{cls.__name__}{params}".replace(".", "_")


class ExactFigure(Figure[ValueT]):
    """A figure of which no error is drawn.

    Sizes that are sold in steps, terms of a contract, a convention, limits of a standard, counts,
    and a number that is only shown.
    """


class ShareFigure(Figure[Annotated[float, Field(ge=1e-3, le=1.0)]]):
    """A share of a whole, or an efficiency: it cannot exceed 1, whatever its error."""


# Made here and not where they are used, so that pickle finds them.
GflopPerSFigure = Figure[Annotated[float, Field(ge=1e-6, le=1e7)]]
"""A rate of computing, up to 10 PFLOP/s."""
PeakFigure = ExactFigure[Annotated[float, Field(ge=1e-6, le=1e7)]]
"""A rate that is computed from the cores and only shown."""
RatioFigure = Figure[Annotated[float, Field(ge=1e-6, le=1e3)]]
"""A rate over another."""
ModulationFigure = ExactFigure[Annotated[float, Field(ge=1e-6, le=1e3)]]
"""Bits per second and hertz of a modulation and coding, which a standard lists."""
SecondsFigure = Figure[Annotated[float, Field(ge=1e-9, le=1e4)]]
"""An overhead or a delay, up to some hours."""
DelayFigure = Figure[Annotated[float, Field(ge=0.0, le=1e4)]]
"""An overhead or a tail in seconds, which may be 0."""
PowerFigure = Figure[PowerW]
"""A power that is never 0."""
DrawFigure = Figure[DrawW]
"""A power that may be 0."""
BitPerSFigure = Figure[RateBitPerS]
MbitPerSFigure = Figure[Annotated[float, Field(ge=1e-6, le=1e7)]]
DbmFigure = ExactFigure[Annotated[float, Field(ge=-100.0, le=100.0)]]
ChargeFigure = Figure[Annotated[float, Field(ge=1.0, le=1e7)]]
"""A charge of a full battery, in mAh."""
VoltFigure = ExactFigure[VoltageV]
GibFigure = ExactFigure[MemoryGib]
CreditsFigure = ExactFigure[Annotated[float, Field(ge=1e-3, le=1e6)]]
LaunchCreditsFigure = ExactFigure[Annotated[float, Field(ge=0.0, le=1e6)]]
"""A number of CPU credits that may be 0."""
KelvinPerWattFigure = Figure[Annotated[float, Field(ge=1e-3, le=1e3)]]
TimeConstantFigure = Figure[Annotated[float, Field(ge=1e-3, le=1e6)]]
"""Seconds in which a skin warms up."""
SlopeFigure = Figure[Annotated[float, Field(ge=0.0, le=1e6)]]
"""Power per rate of a radio, in mW per Mbit/s."""
CountFigure = ExactFigure[Annotated[int, Field(ge=1, le=1_000_000)]]


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
