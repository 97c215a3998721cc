"""Least memory of a run, checked before anything as large as the fleet is made."""

from fleetsim.errors import ScenarioError
from fleetsim.host import memory
from fleetsim.scenario.settings import Scenario
from fleetsim.schema import faults
from fleetsim.schema.strict_yaml import Document

LEAST_BYTE_PER_CLIENT = 350
"""Lower bound of the peak memory of a run, for each client of the fleet.

The peak traced memory of a run without training grew by 378 to 403 bytes per client (phones with
people; phones and servers without). This bound is lower, so that no run is refused that fits.
"""
_BYTE_PER_GIB = 1 << 30


def require_memory(scenario: Scenario, document: Document) -> None:
    """Check that the fleet fits into memory."""
    size, usable = scenario.fleet.size, memory.usable_byte()
    if usable is not None and size * LEAST_BYTE_PER_CLIENT > usable:
        message = (
            f"takes at least {size * LEAST_BYTE_PER_CLIENT / _BYTE_PER_GIB:.0f} GiB of memory, of"
            f" which there are {usable / _BYTE_PER_GIB:.1f}; lower it to"
            f" {usable // LEAST_BYTE_PER_CLIENT} or less, or take a larger machine"
        )
        raise ScenarioError(faults.line(document, ("fleet", "size"), message))
