"""Numbers of a round and keys of a scenario in the flat form that trackers show."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fleetsim.contracts import RoundRow


def metrics_of(row: RoundRow) -> dict[str, float]:
    """Return the numbers of a round by column, without the round; null and text are left out."""
    numbers = {
        name: float(value)
        for name, value in row._asdict().items()
        if name != "round" and isinstance(value, bool | int | float)
    }
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nested mappings by key path.

    >>> flat({"server": {"cohort": 8, "selector": {"kind": "oort"}}, "seed": 1})
    {'server.cohort': 8, 'server.selector.kind': 'oort', 'seed': 1}
    """
    return dict(_leaves(data, ""))


def _leaves(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
