"""AutoFL: Q-tables of clients choose the cohort, and the clock at which each of it computes.

Readings of the source:

* *Execution targets.* The source has five levels without units; here they are shares of the full
  clock. A board's CPU and its GPU are profiles of their own, and a client has one of them.
* *Energy.* The source has made-up units, and divides the energy of the cohort by K.
* *Next state.* The source takes the old one, *accuracy before* the best so far, on the test set.

Secondary source: Kim, Wu, MICRO 2021 (arXiv 2107.08147), by its re-implementation
li1553770945/RL-Federal-Learning@8e0cb93, whose values are the defaults.
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    RoundOutcome,
    RoundView,
    State,
)
from fleetsim.contracts.recording import joined, part_of
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.compute import num_trained
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.key_conditions import beside, by_key
from fleetsim.schema.ranges import EnergyJ, PositiveFraction, Weight
from fleetsim.selectors import probing
from fleetsim.selectors.autofl import equations
from fleetsim.selectors.autofl.equations import NUM_STATES
from fleetsim.selectors.autofl.q_tables import QTables, Rewards
from fleetsim.selectors.baselines.uniform import random_clients
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages, known
from fleetsim.selectors.demands import Demand, Demands, require_validation
from fleetsim.selectors.learned_weights import weights_for
from fleetsim.selectors.tie_breaking import TieRule, best, tie_keys
from fleetsim.units import BIT_PER_MBIT

_ANSWER_BYTE = 8
"""Bins of a state and the category, in one number."""
_UNKNOWN = -1
"""Row of a client that did not answer."""

ClockLevel = Annotated[float, Field(ge=0.001, le=1.0)]
ClockLevels = Annotated[tuple[ClockLevel, ...], Field(min_length=1, max_length=64), Distinct()]
_WHILE_LEARNING = beside("learning", True)


class AutoFLSettings(SelectorKind):
    """Clients and clocks of the best values in Q-tables, which weigh accuracy against joules."""

    acts_if = by_key(
        **dict.fromkeys(
            (
                *("exploration", "learning_rate", "discount", "accuracy_weight", "gain_weight"),
                *("unit_j", "cohort_energy", "previous", "next_state"),
            ),
            _WHILE_LEARNING,
        )
    )
    demands: ClassVar[Demands] = {
        "": Demand(
            "processor, memory and link of all clients, and how many labels each has, as they say;"
            " joules of its cohorts; samples to validate with",
            "private",
            "the server is told how many labels a single client's samples have, and must have"
            " samples; all candidates are asked before each choice",
        )
    }
    weights_are_for: ClassVar[Literal["these clients", "any clients"]] = "these clients"

    selector = "AutoFLSelector"
    kind: Literal["autofl"] = "autofl"
    weights: str | None = None
    """Trained tables: name of a bundled weight file, or path; null: empty ones."""
    learning: bool = Field(default=True, examples=[False])
    """True if tables learn and explore in the run; false: they are used as they are."""
    tables: Literal["own", "category"] = "own"
    """A table for each client (own), or for each category of devices, whose rates on the idle
    device lie in the same doubling, such as 2^33 to 2^34 FLOP/s."""
    clock_levels: ClockLevels = Field(default=(1.0, 0.8, 0.6, 0.4, 0.2), examples=[(0.5, 1.0)])
    """Shares of the full clock to choose among, in place of `task.local.clock_fraction`; of equal
    values the level named first is taken."""
    exploration: Annotated[float, Field(ge=0.0, le=1.0)] = Field(default=0.1, examples=[0.5])
    """Share epsilon of random cohorts, and of random levels."""
    learning_rate: PositiveFraction = 0.9
    """Weight gamma of what was just seen."""
    discount: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Weight mu of the next state."""
    accuracy_weight: Weight = Field(default=1.0, examples=[10.0])
    """Reward alpha of each per cent of accuracy; 10 in another version of the source."""
    gain_weight: Weight = Field(default=10.0, examples=[100.0])
    """Reward beta of each per cent gained; 100 in another version of the source."""
    unit_j: EnergyJ = 1.0
    """Joules that cost as much as 1 in the reward: the larger, the less energy weighs."""
    cohort_energy: Literal["mean", "sum"] = "mean"
    """Energy E of the cohort: the joules of all that delivered over the number selected (mean), or
    their sum."""
    previous: Literal["round", "best"] = "round"
    """Accuracy to compare with: that of the round before, or the best so far."""
    next_state: Literal["observed", "same"] = "observed"
    """Next state of a client: as it answers next, until which the reward waits, or its old one."""
    ties: TieRule = "random"
    """Order among equal values of clients."""


class AutoFLSelector(ConfiguredSelector[AutoFLSettings]):
    """Selector with Q-tables, and with rewards that wait for the next state of their clients.

    `_row` and `_level` are those of the present round's cohort.
    """

    needs_probes = True
    state_parts = ("_tables",)
    state_fields = ("_before",)

    def __init__(self, settings: AutoFLSettings) -> None:
        super().__init__(settings)
        self.needs_losses = settings.learning

    def _begin(self, fleet: FleetView) -> None:
        settings = self._settings
        if settings.learning:
            require_validation(
                fleet, "autofl learns from", ", or learning: false to use tables as they are"
            )
        self._tables = self._empty_tables()
        self._before = probing.accuracy_of(fleet.validation)
        self._row: dict[int, int] = {}
        self._level: dict[int, int] = {}
        none = np.empty(0, dtype=np.int64)
        self._waiting = Rewards(none, none, none, np.empty(0))
        """Rewards whose clients have not reported their next state yet."""
        trained = num_trained(fleet.training, fleet.num_samples, fleet.batching)
        self._epochs = trained / np.maximum(fleet.num_samples, 1)
        self._coverage = fleet.label_coverage
        if settings.weights is not None:
            self.take_up(weights_for(settings.weights, settings.kind, fleet))

    def _stages(self, view: RoundView) -> Stages:
        """Ask every candidate for its resources, once for each choice."""
        yield probing.resource_requests(view.candidates, _ANSWER_BYTE)

    def select(self, view: RoundView) -> Cohort:
        """Return the clients of the largest values, each with its clock."""
        settings, seed = self._settings, self._fleet.seed
        self._expected = {}
        rows = self._rows(*probing.resources(view.reports))
        is_ready = rows[self._waiting.client] != _UNKNOWN
        given, self._waiting = self._waiting.at(is_ready), self._waiting.at(~is_ready)
        self._tables.learn(given, rows[given.client])
        present = view.candidates[rows[view.candidates] != _UNKNOWN]
        has_answers = present.size > 0
        exploration = settings.exploration if settings.learning else 0.0
        draw = rng.stream(seed, "select/autofl", view.round)
        is_random = draw.random() < exploration or not has_answers
        if not has_answers:
            present = view.candidates
        values = self._tables.values(rows[present])
        if is_random:
            chosen = random_clients(present, view.wanted, draw.standard_exponential(self._size))
            values = self._tables.values(rows[chosen])
        else:
            ties = rng.stream(seed, "select/autofl/ties", view.round)
            keys = tie_keys(settings.ties, self._size, ties)[present]
            first = best(values.max(axis=1), view.wanted, keys)
            chosen, values = present[first], values[first]
        draw = rng.stream(seed, "select/autofl/levels", view.round)
        uniforms = draw.random(self._size)[chosen]
        drawn = draw.integers(len(settings.clock_levels), size=self._size)[chosen]
        levels = equations.chosen_levels(values, uniforms, drawn, exploration)
        self._row = dict(zip(chosen.tolist(), rows[chosen].tolist(), strict=True))
        self._level = dict(zip(chosen.tolist(), levels.tolist(), strict=True))
        if has_answers and chosen.size:
            self._expected = known(expected=values[np.arange(chosen.size), levels].mean())
        return Cohort(chosen, clock_fraction=np.array(settings.clock_levels)[levels])

    def observe(self, outcome: RoundOutcome) -> None:
        """Reward the clients that delivered and whose state is known."""
        accuracy, before = probing.accuracy_of(outcome.validation), self._before
        self._diagnostics, self._expected = self._expected, {}
        if math.isnan(accuracy) or not self._settings.learning:
            return
        is_best = self._settings.previous == "best" and before > accuracy
        self._before = before if is_best else accuracy
        spent_j = {
            report.client: report.energy_j
            for report in outcome.reports
            if report.is_delivered
            and report.energy_j is not None
            and math.isfinite(report.energy_j)
            and self._row.get(report.client, _UNKNOWN) != _UNKNOWN
        }
        if math.isnan(before) or not spent_j:
            return
        clients, local_j = list(spent_j), np.array(list(spent_j.values()))
        # Clients that failed report no joules; the cohort's mean is over all that were asked.
        num = outcome.selected.size if self._settings.cohort_energy == "mean" else 1
        reward = equations.rewards(
            accuracy,
            before,
            local_j,
            float(local_j.sum()) / num,
            accuracy_weight=self._settings.accuracy_weight,
            gain_weight=self._settings.gain_weight,
            unit_j=self._settings.unit_j,
        )
        rows = np.array([self._row[client] for client in clients])
        levels = np.array([self._level[client] for client in clients])
        given = Rewards(np.array(clients), rows, levels, reward)
        target = reward + self._settings.discount * self._tables.values(rows).max(axis=1)
        self._diagnostics |= known(realised=target.mean(), reward=reward.mean())
        if self._settings.next_state == "same":
            self._tables.learn(given, given.row)
        else:
            self._waiting = Rewards._make(map(np.append, self._waiting, given))

    def state(self) -> State:
        """Return the tables, the accuracy before, and the rewards that wait."""
        waiting = {name: column.copy() for name, column in self._waiting._asdict().items()}
        return super().state() | joined({"waiting": waiting})

    def restore(self, state: State) -> None:
        """Replace the state by a copy of what `state` returned."""
        super().restore(state)
        waiting = part_of(state, "waiting")
        self._waiting = Rewards._make(np.array(waiting[name]) for name in Rewards._fields)

    def learned(self) -> State:
        """Return the tables; rewards that wait take the old state of their client as the next."""
        tables = self._empty_tables()
        tables.restore(self._tables.state())
        tables.learn(self._waiting, self._waiting.row)
        return tables.state() | {
            "clock_levels": np.array(self._settings.clock_levels),
            "are_shared": np.array(self._settings.tables == "category"),
        }

    def take_up(self, learned: State) -> None:
        """Replace the tables by trained ones of the same clock levels and kind of tables."""
        settings = self._settings
        levels = learned.get("clock_levels", np.empty(0))
        if levels.tolist() != list(settings.clock_levels):
            raise ScenarioError(
                f"server.selector.clock_levels: {list(settings.clock_levels)}, but the tables were"
                f" trained for {levels.tolist()}; set these, or train with `fleetsim selector"
                " train autofl`"
            )
        trained = "category" if np.all(learned.get("are_shared", False)) else "own"
        if trained != settings.tables:
            raise ScenarioError(
                f"server.selector.tables: {settings.tables}, but the tables were trained as"
                f" {trained}; set this, or train with `fleetsim selector train autofl`"
            )
        try:
            self._tables.restore(learned)
        except (KeyError, ValueError) as fault:
            raise ScenarioError(
                f"server.selector.weights: no Q-tables of autofl: {fault}; train with `fleetsim"
                " selector train autofl`"
            ) from fault

    def policy(self) -> State:
        """Return the tables."""
        return self.learned()

    def _empty_tables(self) -> QTables:
        settings = self._settings
        rates = {"learning_rate": settings.learning_rate, "discount": settings.discount}
        return QTables(len(settings.clock_levels), **rates)

    def _rows(self, clients: IntArray, told: Mapping[str, FloatArray]) -> IntArray:
        """Return the row of each client in its present state [N]; -1 of those without an answer."""
        rows: IntArray = np.full(self._size, _UNKNOWN, dtype=np.int64)
        layers = self._fleet.layer_counts
        coverage = 1.0 if self._coverage is None else self._coverage[clients]
        rate_bit_per_s = np.minimum(told["down_bit_per_s"], told["up_bit_per_s"])
        free_byte = told["free_ram_byte"]
        # Without a memory model no memory is in use.
        used = np.where(np.isnan(free_byte), 0.0, 1.0 - free_byte / told["ram_byte"])
        states = equations.state_number(
            num_conv=layers.get("conv", 0) + layers.get("depthwise", 0),
            num_fc=layers.get("gemm", 0),
            num_rc=layers.get("rnn", 0),
            batch_size=self._fleet.batch_size,
            epochs=self._epochs[clients],
            participants=self._fleet.cohort,
            cpu_percent=100.0 * told["load_fraction"],
            memory_percent=100.0 * np.maximum(used, 0.0),
            rate_mbit_per_s=rate_bit_per_s / BIT_PER_MBIT,
            coverage_percent=100.0 * np.asarray(coverage),
        )
        tables = clients
        if self._settings.tables == "category":
            tables = equations.category(told["flop_per_s"])
        rows[clients] = tables * NUM_STATES + states
        return rows
