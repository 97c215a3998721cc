"""Processor time of a selector's own code for one choice.

A synthetic server calls a selector as the engine does: `setup`, then for each choice `probe` until
it requests nothing more, `select`, `observe`. All clients are available and deliver. In the first
round all clients take part, so that all are known afterwards, which makes choices dearest. Reports
are synthetic, and generated outside of the measured time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    Evaluation,
    FleetView,
    Outcome,
    ProbeRequest,
    Purpose,
    Report,
    Resources,
    RoundOutcome,
    RoundView,
    Selector,
    WorkKind,
)
from fleetsim.selectors.demands import Demand

COHORT = 10
MOST_BYTE = 2 * 2**30
"""Largest memory of arrays over pairs of clients, or of networks, that is allocated."""
_NUM_PARAMETERS = 16
_NUM_VECTORS = 64
_FEW, _MANY = 3, 15
_LARGE = 100_000
_ROUND_S = 60.0
_A = TypeVar("_A")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Times:
    """Processor times of choices."""

    first_s: float
    """Time of the set-up and the first choice, for which some selectors probe all clients."""
    choices_s: tuple[float, ...]
    """Times of later choices."""


def refusal(demand: Demand, size: int, cohort: int) -> str | None:
    """Return the reason why a fleet is too large for a selector; None if it is not.

    >>> refusal(Demand("", "small", "", square_byte=8), 1_000_000, 10)
    'O(N^2) memory: 7.3 TiB'
    >>> refusal(Demand("", "private", "", client_byte=200_000), 1_000_000, 10)
    '200,000 byte each: 186.3 GiB'
    >>> refusal(Demand("", "small", "", has_sets=True), 100, 10)
    'C(N, K) sets: 1.7e+13'
    """
    if demand.has_sets and math.comb(size, cohort) > 1_000_000:
        # Such a number may exceed the range of floats.
        digits = math.log10(math.comb(size, cohort))
        return f"C(N, K) sets: {10 ** (digits % 1):.1f}e+{int(digits)}"
    byte = demand.square_byte * size**2 + demand.client_byte * size
    if byte <= MOST_BYTE:
        return None
    unit, power = ("TiB", 40) if byte >= 2**40 else ("GiB", 30)
    growth = "O(N^2) memory" if demand.square_byte else f"{demand.client_byte:,} byte each"
    return f"{growth}: {byte / 2**power:.1f} {unit}"


def measured(selector: Selector, size: int, cohort: int, *, set_up_choices: int) -> Times:
    """Measure several choices of a selector."""
    server = _Server(selector, size, cohort)
    server.set_up()
    server.play(all_train=True)
    first_s = server.spent_s
    for _ in range(set_up_choices):
        server.play()
    choices_s = []
    for _ in range(_FEW if size >= _LARGE else _MANY):
        before_s = server.spent_s
        server.play()
        choices_s.append(server.spent_s - before_s)
    return Times(first_s, tuple(choices_s))


class _Server:
    """Server of rounds with synthetic reports that adds up the selector's processor time."""

    def __init__(self, selector: Selector, size: int, cohort: int) -> None:
        self._selector = selector
        self._cohort = cohort
        self.spent_s = 0.0
        self._round = 0
        draw = rng.stream(1, "made-up fleet")
        self._clients = _frozen(np.arange(size))
        self._num_samples = _frozen(draw.integers(1, 200, size))
        self._loss = draw.exponential(size=size)
        self._duration_s = draw.uniform(1.0, 50.0, size)
        self._position_m = _frozen(draw.uniform(-1000.0, 1000.0, (size, 2)))
        self._speed = draw.uniform(1.0, 100.0, size)
        self._parameters = _frozen(np.zeros(_NUM_PARAMETERS, dtype=np.float32))
        vectors = draw.standard_normal((_NUM_VECTORS, _NUM_PARAMETERS)).astype(np.float32)
        self._vectors = [_frozen(vector) for vector in vectors]
        self._set_up_reports: list[Report] = []

    def set_up(self) -> None:
        fleet = FleetView(
            seed=1,
            num_samples=self._num_samples,
            cohort=self._cohort,
            epochs=1,
            batch_size=10,
            learning_rate=0.1,
            planned_rounds=100,
            parameters=self._parameters,
            payload_byte=self._parameters.nbytes,
            validation=Evaluation(accuracy=0.1, loss=2.3),
            position_m=self._position_m,
        )
        requests = self._timed(self._selector.setup, fleet)
        self._set_up_reports = self._answers(requests)

    def play(self, *, all_train: bool = False) -> None:
        """Play one round in which the selected clients train, or all clients."""
        self._round += 1
        reports, self._set_up_reports = self._set_up_reports, []
        stage = 0
        while requests := self._timed(self._selector.probe, self._view(reports, stage)):
            reports = [*reports, *self._answers(requests)]
            stage += 1
        answer = self._timed(self._selector.select, self._view(reports, 0))
        chosen = answer.clients if isinstance(answer, Cohort) else answer
        if all_train:
            chosen = self._clients
        told = tuple(
            self._report(client, Purpose.TRAIN, has_vector=True) for client in chosen.tolist()
        )
        outcome = RoundOutcome(
            round=self._round,
            started_at_s=_ROUND_S * self._round,
            finished_at_s=_ROUND_S * (self._round + 1),
            selected=chosen,
            reports=told,
            aggregated=True,
            parameters=self._parameters,
            # Below the target of a selector that learns, which would end its episode.
            validation=Evaluation(accuracy=0.5 + 0.3 / self._round, loss=1.0 / self._round),
        )
        self._timed(self._selector.observe, outcome)

    def _timed(self, call: Callable[[_A], _T], argument: _A) -> _T:
        began_s = time.process_time()
        result = call(argument)
        self.spent_s += time.process_time() - began_s
        return result

    def _view(self, reports: Iterable[Report], stage: int) -> RoundView:
        return RoundView(
            round=self._round,
            now_s=_ROUND_S * self._round,
            wanted=self._cohort,
            candidates=self._clients,
            num_samples=self._num_samples,
            parameters=self._parameters,
            reports=tuple(reports),
            stage=stage,
        )

    def _answers(self, requests: Sequence[ProbeRequest]) -> list[Report]:
        with_vector = (WorkKind.GRADIENT, WorkKind.TRAIN)
        return [
            self._report(
                request.client,
                Purpose.PROBE,
                has_vector=request.work.kind in with_vector and request.uploads_vector,
                has_resources=request.asks_resources,
            )
            for request in requests
        ]

    def _report(
        self, client: int, purpose: Purpose, *, has_vector: bool, has_resources: bool = False
    ) -> Report:
        # Losses decrease, some faster than others.
        loss = float(self._loss[client]) / (1.0 + 0.01 * self._round * (client % 7))
        duration_s = float(self._duration_s[client])
        return Report(
            client=client,
            purpose=purpose,
            outcome=Outcome.DELIVERED,
            dispatched_at_s=_ROUND_S * self._round,
            finished_at_s=_ROUND_S * self._round + duration_s,
            num_samples=int(self._num_samples[client]),
            download_s=0.1 * duration_s,
            compute_s=0.6 * duration_s,
            upload_s=0.3 * duration_s,
            loss=loss,
            loss_rms=1.1 * loss,
            accuracy=math.exp(-loss),
            vector=self._vectors[client % _NUM_VECTORS] if has_vector else None,
            update_norm=2.0 * loss,
            energy_j=5.0,
            resources=self._resources(client) if has_resources else None,
            base=self._parameters,
        )

    def _resources(self, client: int) -> Resources:
        speed = float(self._speed[client])
        return Resources(
            flop_per_s=1e9 * speed,
            ram_byte=2**32,
            load_fraction=0.2,
            is_charging=False,
            is_unmetered=True,
            battery_fraction=0.5,
            samples_per_s=speed,
            down_bit_per_s=1e6 * speed,
            up_bit_per_s=3e5 * speed,
        )


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array
