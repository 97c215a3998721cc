"""Parts of a row of the user's data (sample, label, client), and their names in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fleetsim.errors import DataError
from fleetsim.quoting import quoted

Key = str | int
"""Name of a column or of a key of an item, or place in an item that is a tuple."""

_LABELS = ("label", "labels")
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the parts of a row; None: found by a rule, or absent."""

    inputs: Key | Sequence[Key] | None = None
    """Columns or keys of the inputs; None: the only ones besides label and client."""
    label: Key | None = None
    """Column or key of the label; None: `label` or `labels`, or the second of a pair."""
    client: Key | None = None
    """Column or key of the client that a sample belongs to; None: no client is named."""
    needs_client: bool = True
    """False: rows may be without the client, as those of a test part."""


class Row(NamedTuple):
    """One row, as the user's data have it."""

    sample: Any
    label: Any
    client: Any


class DatasetColumns(NamedTuple):
    """All rows, column by column."""

    samples: Any
    """Array [n, ...] or a sequence of n samples."""
    labels: Any
    clients: Any


@dataclass(frozen=True, slots=True)
class Names:
    """Columns of a table, or keys of an item, by their use."""

    inputs: tuple[Key, ...]
    label: Key
    client: Key | None
    is_single: bool
    """True: the one column holds the samples; False: columns are the features of a vector."""


def named(keys: Sequence[Key], fields: Fields, place: str) -> Names:
    """Return the columns or keys by their use."""
    label, client = fields.label, fields.client
    if client not in keys and not fields.needs_client:
        client = None
    if label is None:
        matches = [name for name in _LABELS if name in keys]
        if len(matches) != 1:
            raise DataError(
                f"{place} has {_listed(keys)}, and not one called label or labels; name that of the"
                " labels, such as label='y'"
            )
        label = matches[0]
    inputs = fields.inputs
    if inputs is None:
        inputs = [key for key in keys if key not in (label, client)]
        if not inputs:
            raise DataError(f"{place} has {_listed(keys)}, and none is left for the inputs")
        is_single = len(inputs) == 1
    elif isinstance(inputs, str | int):
        inputs, is_single = [inputs], True
    else:
        is_single = False
    for name, requested in (("inputs", inputs), ("label", [label]), ("client", [client])):
        for key in requested:
            if key is not None and key not in keys:
                raise DataError(
                    f"{name}={quoted(key)}: {place} has {_listed(keys)}; name one of them"
                )
    return Names(tuple(inputs), label, client, is_single)


def _listed(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
    return f"columns {', '.join(map(quoted, keys[:_MOST_NAMED]))}{more}"
