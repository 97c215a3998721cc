"""Groups of the rarer kinds of devices, so that a figure stays readable."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pandas as pd

Kinds = Mapping[str, str]
"""Kind of each device (phone, board, vm) by its name in tables."""
NO_KINDS: Kinds = MappingProxyType({})
"""Kinds of a run that did not record them: all other devices are one group."""

MAX_ROWS = 24
"""Largest number of rows with a device each."""
MAX_HUES = 7
"""Largest number of colours in a figure."""
_MANY = {"phone": "phones", "board": "boards", "vm": "virtual machines"}


def grouped(names: Sequence[str], kinds: Kinds, most: int) -> dict[str, str]:
    """Return the shown name of each device; `names` begins with those to keep.

    The others share a name by kind, which counts them. A device alone in its group keeps its name.

    >>> kinds = {"a": "phone", "b": "phone", "c": "phone", "d": "board"}
    >>> grouped(["a", "b", "c", "d"], kinds, 3)
    {'a': 'a', 'b': 'other phones (2)', 'c': 'other phones (2)', 'd': 'd'}
    >>> grouped(["a", "x", "y"], {}, 2)
    {'a': 'a', 'x': 'other devices (2)', 'y': 'other devices (2)'}
    """
    if len(names) <= most:
        return {name: name for name in names}
    for num_kept in range(most - 1, -1, -1):
        rest: dict[str, list[str]] = {}
        for name in names[num_kept:]:
            rest.setdefault(_MANY.get(kinds.get(name, ""), "devices"), []).append(name)
        if num_kept + len(rest) <= most:
            break
    shown = {name: name for name in names}
    for many, members in rest.items():
        if len(members) > 1:
            shown |= dict.fromkeys(members, f"other {many} ({len(members)})")
    return shown


def with_few_devices(frame: pd.DataFrame, kinds: Kinds, most: int = MAX_ROWS) -> pd.DataFrame:
    """Return the same rows; if there are too many devices, those with fewest rows share names."""
    names = list(frame["device"].value_counts().index)
    if len(names) <= most:
        return frame
    return frame.assign(device=frame["device"].map(grouped(names, kinds, most)))
