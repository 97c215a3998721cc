"""Records of selections: what each brought and cost, their scores, orders and division.

A record is one selection (a set of clients) with the performance after it, and its seconds and
joules. FedGCS learns from the records of other selectors' rounds.

Source: FedGCS (arXiv 2405.06312), sections 4.2 and 4.3, "data augmentation".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray, State
from fleetsim.selectors.argument_checks import require_all, require_lengths
from fleetsim.selectors.fedgcs.equations import scaled, scores
from fleetsim.selectors.fedgcs.settings import FedGCSSettings

_COLUMNS = ("performance", "latency_s", "energy_j")


@dataclass(frozen=True, slots=True, eq=False)
class SelectionRecords:
    """Selections, and performance, seconds and joules of each.

    >>> two = SelectionRecords.of([[3, 1], [2]], [0.5, 0.75], [10.0, 8.0], [30.0, 20.0])
    >>> len(two), two.clients.tolist()
    (2, [1, 2, 3])
    """

    selections: tuple[IntArray, ...]
    """Distinct clients of each, at least one [R]."""
    performance: FloatArray
    """Performance after each, such as the validation accuracy of the global model [R]."""
    latency_s: FloatArray
    """Seconds of each [R]."""
    energy_j: FloatArray
    """Joules of each [R]."""

    def __post_init__(self) -> None:
        num = len(self.selections)
        require_lengths(num, **self._columns())
        sizes, clients = self.flat()
        require_all("sizes of selections must be positive", sizes, sizes > 0)
        require_all("clients must not be negative", clients, clients >= 0)
        places = np.repeat(np.arange(num), sizes) * (clients.max(initial=0) + 1) + clients
        if np.unique(places).size < places.size:
            raise ValueError("a selection must have distinct clients")
        for name, values in self._columns().items():
            is_good = np.isfinite(values) & (values >= 0.0)
            require_all(f"{name} must be finite and not negative", values, is_good)

    @classmethod
    def of(
        cls,
        selections: Sequence[Sequence[int] | IntArray],
        performance: Sequence[float] | FloatArray,
        latency_s: Sequence[float] | FloatArray,
        energy_j: Sequence[float] | FloatArray,
    ) -> SelectionRecords:
        """Return records from any sequences of numbers."""
        return cls(
            tuple(np.array(selection, dtype=np.int64) for selection in selections),
            np.array(performance, dtype=np.float64),
            np.array(latency_s, dtype=np.float64),
            np.array(energy_j, dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.selections)

    def _columns(self) -> dict[str, FloatArray]:
        """Return performance, seconds and joules by name."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def flat(self) -> tuple[IntArray, IntArray]:
        """Return the sizes of the selections [R], and their clients in one array."""
        sizes = np.array([selection.size for selection in self.selections], dtype=np.int64)
        return sizes, np.concatenate([np.empty(0, dtype=np.int64), *self.selections])

    @property
    def clients(self) -> IntArray:
        """Clients that any selection has, ascending."""
        return np.unique(self.flat()[1])

    def within(self, is_known: BoolArray) -> SelectionRecords:
        """Return the records of which all clients are known, by a mask over the fleet [N]."""
        sizes, clients = self.flat()
        row = np.repeat(np.arange(sizes.size), sizes)
        num_unknown = np.bincount(row, ~is_known[clients], minlength=sizes.size)
        return self.chosen(np.flatnonzero(num_unknown == 0.0))

    def __add__(self, other: SelectionRecords) -> SelectionRecords:
        pairs = zip(self._columns().values(), other._columns().values(), strict=True)
        columns = (np.concatenate(pair) for pair in pairs)
        return SelectionRecords(self.selections + other.selections, *columns)

    def chosen(self, rows: IntArray) -> SelectionRecords:
        """Return some of the records, in the order of `rows`."""
        columns = (column[rows] for column in self._columns().values())
        return SelectionRecords(tuple(self.selections[row] for row in rows.tolist()), *columns)

    def split(self, fraction: float, seed: int, *indices: int) -> tuple[IntArray, IntArray]:
        """Return rows to train with and rows held out, drawn at random, both ascending.

        At least one row is held out and two are left where there are three or more; none is held
        out of fewer.
        """
        num = len(self)
        num_held = min(max(round(fraction * num), 1), num - 2) if num >= 3 and fraction > 0.0 else 0
        order = rng.stream(seed, "fedgcs/held out", *indices).permutation(num)
        return np.sort(order[num_held:]), np.sort(order[:num_held])

    def orders(self, num: int, seed: int, *indices: int) -> tuple[list[IntArray], IntArray]:
        """Return `num` random orders of each selection, and the row of each; 0: as it is.

        Source: FedGCS (arXiv 2405.06312), section 4.3, "data augmentation".
        """
        if num == 0:
            return list(self.selections), np.arange(len(self))
        generator = rng.stream(seed, "fedgcs/orders", *indices)
        shuffled = [
            generator.permutation(selection) for selection in self.selections for _ in range(num)
        ]
        return shuffled, np.repeat(np.arange(len(self)), num)

    def state(self) -> State:
        """Return the records as arrays, for checkpoints and weight files."""
        sizes, clients = self.flat()
        return {
            "records/sizes": sizes,
            "records/clients": clients,
            **{f"records/{name}": column.copy() for name, column in self._columns().items()},
        }

    @classmethod
    def restored(cls, state: State) -> SelectionRecords:
        """Return the records that `state` described."""
        sizes = np.array(state["records/sizes"], dtype=np.int64)
        clients = np.array(state["records/clients"], dtype=np.int64)
        ends = np.cumsum(sizes)
        selections = [clients[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        columns: list[FloatArray] = [np.array(state[f"records/{name}"]) for name in _COLUMNS]
        return cls.of(selections, *columns)


NO_RECORDS = SelectionRecords.of([], [], [], [])
"""Records of nothing yet."""


class ScoreScale(NamedTuple):
    """Budgets, and ranges of performance and of scores, of the records of a fit.

    They change as records are added. Networks keep the scale of their fit, on which a later round
    must be scored to be compared with their estimates.
    """

    budget_s: float
    budget_j: float
    worst_performance: float
    best_performance: float
    worst_score: float
    best_score: float

    @classmethod
    def of(cls, records: SelectionRecords, rules: FedGCSSettings) -> ScoreScale:
        """Return the scale of a fit to these records, at least one.

        A budget that is not given is the median of the records, and at least the smallest positive
        number, so that records without costs have their performance as the score.
        """

        def budget(given: float | None, costs: FloatArray) -> float:
            tiny = float(np.finfo(np.float64).tiny)
            return max(float(np.median(costs)), tiny) if given is None else given

        scale = cls(
            budget(rules.budget_s, records.latency_s),
            budget(rules.budget_j, records.energy_j),
            float(records.performance.min()),
            float(records.performance.max()),
            worst_score=0.0,
            best_score=0.0,
        )
        values = scale.scores(records, rules)
        return scale._replace(worst_score=float(values.min()), best_score=float(values.max()))

    def scores(self, records: SelectionRecords, rules: FedGCSSettings) -> FloatArray:
        """Return (1) of each record [R], with the budgets of this scale and the rules' exponents.

        A score needs a performance of 0 or more. Scaled, that of a record that is worse than all of
        the fit is less; it counts as the worst of the fit.
        """
        performance = records.performance
        if rules.performance_scale == "min_max":
            performance = scaled(performance, self.worst_performance, self.best_performance)
        return scores(
            np.maximum(performance, 0.0),
            records.latency_s,
            records.energy_j,
            budget_s=self.budget_s,
            budget_j=self.budget_j,
            latency_exponent=rules.latency_exponent,
            energy_exponent=rules.energy_exponent,
        )

    def targets(self, records: SelectionRecords, rules: FedGCSSettings) -> FloatArray:
        """Return the scores as the evaluator learns them; beyond [0, 1] outside of the fit [R]."""
        values = self.scores(records, rules)
        if rules.target == "min_max":
            values = scaled(values, self.worst_score, self.best_score)
        return values
