"""Ranges of the numbers that scenarios and data files may hold.

They are wider than any fleet needs, and narrow enough to find a wrong unit or exponent. Numbers
that must be above 0 have a smallest value, so that quotients by them stay finite.
"""

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

DurationS = Annotated[float, Field(ge=1e-3, le=1e9)]
"""From 1 ms, less than any message over the air takes, to 32 years."""
DelayS = Annotated[float, Field(ge=0.0, le=1e9)]
"""A duration that may be 0."""
OffsetS = Annotated[int, Field(ge=0, le=1_000_000_000)]
"""Whole seconds from 0 to 32 years."""
PowerW = Annotated[float, Field(ge=1e-6, le=1e4)]
"""From 1 microwatt, practically nothing, to 10 kW, a rack of servers."""
DrawW = Annotated[float, Field(ge=0.0, le=1e4)]
"""A power that may be 0."""
EnergyJ = Annotated[float, Field(ge=1e-3, le=1e15)]
"""From 1 mJ to 1 PJ, a day of a large power station times ten."""
CapacityWh = Annotated[float, Field(ge=1e-3, le=1e5)]
"""From the cell of an earphone to the battery of a bus."""
VoltageV = Annotated[float, Field(ge=0.5, le=60.0)]
"""From an empty cell to a pack of sixteen."""
ResistanceOhm = Annotated[float, Field(ge=1e-3, le=1.0)]
"""Resistance of a battery: cells of phones have 0.05 to 0.3 ohm; at 1 ohm and 3.8 V a battery
gives at most 3.6 W."""
RateBitPerS = Annotated[float, Field(ge=1.0, le=1e15)]
"""From 1 bit/s to 1 Pbit/s, more than the uplink of a data centre."""
RatePerHour = Annotated[float, Field(ge=0.0, le=3600.0)]
"""From never to once a second."""
MemoryGib = Annotated[float, Field(ge=1e-3, le=1e5)]
"""From 1 MiB to 100 TiB."""
LengthM = Annotated[float, Field(ge=1e-3, le=1e8)]
"""From 1 mm to more than around the Earth."""

PositiveFraction = Annotated[float, Field(ge=1e-6, le=1.0)]
"""A share that may not be 0: from one in a million to all."""
DeviceShare = Annotated[float, Field(ge=1e-9, le=1.0)]
"""Share of a fleet that has one device: one in a billion, the largest fleet, is the least."""
PartFraction = Annotated[float, Field(ge=1e-6, lt=1.0)]
"""A share that is neither nothing nor all."""
FailureChance = Annotated[float, Field(ge=1e-30, lt=1.0)]
"""Chance delta with which a bound of differential privacy may be exceeded."""

Clients = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""A number of clients; as many as the largest fleet."""
ClientId = Annotated[int, Field(ge=0, lt=1_000_000_000)]
Samples = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""A number of samples, texts or characters."""
Rounds = Annotated[int, Field(ge=1, le=100_000_000)]
"""A number of rounds; at a hundred per second, 12 days of host time."""
Steps = Annotated[int, Field(ge=1, le=10_000_000)]
"""A number of iterations of an algorithm."""
Epochs = Annotated[int, Field(ge=1, le=100_000)]
"""Passes over a client's samples in one task."""

Gain = Annotated[float, Field(ge=1e-12, le=1e12)]
"""A free parameter of an algorithm that must be above 0."""
Weight = Annotated[float, Field(ge=0.0, le=1e12)]
"""A free parameter of an algorithm that may be 0."""
StepFactor = Annotated[float, Le(1e12)]
"""Factor of weights or gradients; bounded, because these are 32-bit floats."""
LearningRate = Annotated[StepFactor, Ge(1e-30)]
NetworkRate = Annotated[float, Field(ge=1e-30, le=1.0)]
"""Step size of a selector's network. Adam and RMSProp move each weight by about this much; weights
begin below 1, and products of much larger ones leave the range of 32-bit floats."""
Severity = Annotated[float, Field(ge=0.0, le=1.0)]
"""Spread of a property over clients: from 0, none, to 1, severe."""
