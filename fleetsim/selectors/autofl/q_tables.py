"""Q-tables of all clients together, and rewards from which they learn.

There is a row of values for each state of a table that was rewarded. Its number is that of the
table times `NUM_STATES` plus that of the state. Other rows are zeros and take no memory. A row of A
levels takes 8 + 8 A byte. A round adds at most a row for each client that delivered, and a table
has at most 62,208. Within a run the model, its training and the labels of a client are fixed, so
that a client has at most 4 * 4 * 2 = 32: with 5 levels 1,536 byte.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, State
from fleetsim.selectors.autofl.equations import updated
from fleetsim.selectors.declared_state import DeclaredState


class Rewards(NamedTuple):
    """Rewards of clients, in the order of their rounds."""

    client: IntArray
    """Client of each [n]."""
    row: IntArray
    """Row of its state when it was chosen [n]."""
    level: IntArray
    """Level at which it computed [n]."""
    reward: FloatArray
    """R [n]."""

    def at(self, mask: BoolArray) -> Rewards:
        """Return those of a mask [n]."""
        return Rewards._make(column[mask] for column in self)


class QTables(DeclaredState):
    """Values of all levels in the states that were rewarded."""

    state_fields = ("_rows", "_values")

    def __init__(self, num_levels: int, *, learning_rate: float, discount: float) -> None:
        self._rates = {"learning_rate": learning_rate, "discount": discount}
        self._rows: IntArray = np.empty(0, dtype=np.int64)
        self._values: FloatArray = np.empty((0, num_levels))

    def values(self, rows: IntArray) -> FloatArray:
        """Return the values of these rows [n, A]; zeros where nothing was learned."""
        result = np.zeros((rows.size, self._values.shape[1]))
        if self._rows.size:
            at = self._places(rows)
            is_there = self._rows[at] == rows
            result[is_there] = self._values[at[is_there]]
        return result

    def learn(self, given: Rewards, next_rows: IntArray) -> None:
        """Learn from rewards, one by one, with the row of the next state of each client [n].

        Clients that share a table may share a row.
        """
        self._add(given.row)
        places = self._places(given.row).tolist()
        steps = zip(places, given.level.tolist(), given.reward.tolist(), next_rows, strict=True)
        for place, level, reward, next_row in steps:
            self._values[place, level] = updated(
                float(self._values[place, level]),
                reward,
                float(self.values(next_row[np.newaxis]).max()),
                **self._rates,
            )

    def restore(self, state: State) -> None:
        """Replace all rows by copies of those that `state` returned, of as many levels."""
        rows, values = state["rows"], state["values"]
        is_right = (
            rows.dtype == np.int64
            and rows.ndim == 1
            and bool((np.diff(rows, prepend=-1) > 0).all())
            and values.dtype == np.float64
            and values.shape == (rows.size, self._values.shape[1])
            and bool(np.isfinite(values).all())
        )
        if not is_right:
            raise ValueError("rows must ascend from 0, each with a finite value for every level")
        super().restore(state)

    def _add(self, rows: IntArray) -> None:
        new = np.setdiff1d(rows, self._rows)
        if new.size:
            at = self._rows.searchsorted(new)
            self._rows = np.insert(self._rows, at, new)
            self._values = np.insert(self._values, at, 0.0, axis=0)

    def _places(self, rows: IntArray) -> IntArray:
        """Return the place of each row; where there is none, any place."""
        return self._rows.searchsorted(rows).clip(max=self._rows.size - 1)
