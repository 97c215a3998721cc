"""Batches of tasks: each as if it were alone, and cut off at any moment."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetsim.contracts import FloatArray, IntArray, Outcome, ProbeRequest, Purpose, Work, WorkKind
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.tasks.task import Task, TrainingRequest
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.engine.world import World
from fleetsim.errors import SimulationError
from fleetsim.fleet.energy import Component
from fleetsim.fleet.population import Fleet
from fleetsim.units import BIT_PER_BYTE
from tests.engine.tiny import COST, Tiny

PAYLOAD_BIT = COST.payload_byte * BIT_PER_BYTE
EPOCH = Work(WorkKind.TRAIN, epochs=1)
PHONES = {"pixel-6": 0.5, "redmi-note-10": 0.25, "jetson-nano-gpu": 0.25}


def task(
    number: int, client: int, work: Work = EPOCH, purpose: Purpose = Purpose.TRAIN, **changes: Any
) -> Task:
    kind = TrainingRequest if purpose is Purpose.TRAIN else ProbeRequest
    fields: dict[str, Any] = {
        "number": number,
        "round": 1,
        "request": kind(client, work),
        "work": work,
        "job": None,
        "address": (0, number),
        "version": 0,
        "download_bit": PAYLOAD_BIT,
        "upload_bit": PAYLOAD_BIT,
        "dispatched_at_s": 0.0,
    }
    return Task(**(fields | changes))


def fleet_of(tiny: Tiny, *, size: int, seed: int) -> Fleet:
    """Phones and boards on Wi-Fi and fading cells over TCP, with crashes, lost uploads, absent
    owners and weak batteries."""
    tiny.size, tiny.devices, tiny.seed = size, PHONES, seed
    tiny.samples = [20 + 13 * (client % 7) for client in range(size)]
    tiny.channel = {
        "kind": "fading",
        "block_s": 0.1,
        "give_up_s": 30.0,
        "upload_success": [{"probability": 0.8}],
        "unmetered_radio": "wifi",
    }
    tiny.transport = {"kind": "tcp"}
    tiny.usage = {"trace": "people-week", "starts_at_s": 68400}
    tiny.battery = {"initial_fraction": [0.15, 0.1503]}
    tiny.crash_per_hour = 30.0
    return tiny.fleet()


def world_of(fleet: Fleet) -> World:
    return World(fleet, EligibilitySettings())


def laid_out(world: World, tasks: list[Task], now_s: float = 0.0) -> TaskBatch:
    return TaskBatch(world, tasks, now_s=now_s, cost=COST, batch_size=10)


def standing(world: World) -> dict[str, bytes]:
    return {key: array.tobytes() for key, array in world.take_changed().items()}


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(1, 10**6), cut_share=st.floats(0.0, 1.1), enough=st.integers(1, 12))
def test_tasks_go_together_as_they_go_alone(tiny, seed, cut_share, enough):
    fleet = fleet_of(tiny, size=12, seed=seed)
    worlds = [world_of(fleet), world_of(fleet)]
    kinds: list[dict[str, Any]] = [
        {},
        {"download_bit": 0},
        {"work": Work(WorkKind.NONE)},
        {"upload_bit": 64},
    ]
    for now_s in (0.0, 40.0):  # the second time after tails and losses
        alone, together = [
            [task(c, c, **kinds[c % 4], dispatched_at_s=now_s) for c in range(12)] for _ in range(2)
        ]
        batch = laid_out(worlds[0], together, now_s)
        closes_s, _ = batch.closing(enough)
        cut_s = now_s + cut_share * (closes_s - now_s)
        batch.cut(cut_s, priority(Rank.STOP), Outcome.CANCELLED)
        results = batch.settle()
        singles = []
        for each in alone:
            single = laid_out(worlds[1], [each], now_s)
            single.cut(cut_s, priority(Rank.STOP), Outcome.CANCELLED)
            singles += single.settle()

        assert results == singles
        assert standing(worlds[0]) == standing(worlds[1])


def test_what_is_cut_off_is_what_would_have_been_until_then(tiny):
    fleet = fleet_of(tiny, size=12, seed=3)
    whole = laid_out(world_of(fleet), [task(c, c) for c in range(12)])
    moments = np.unique(np.concatenate([whole.end_s, np.linspace(0.0, whole.end_s.max(), 20)]))
    before_j = 0.0
    for cut_s in moments.tolist():
        world = world_of(fleet)
        tasks = [task(c, c) for c in range(12)]
        batch = laid_out(world, tasks)
        batch.cut(cut_s, priority(Rank.STOP), Outcome.CANCELLED)
        results = batch.settle()
        spent_j = sum(math.fsum(t.energy_j) for t in results)

        assert spent_j == pytest.approx(world.energy_j.sum(), rel=1e-12)
        assert all(t.finished_at_s <= cut_s for t in results)
        assert all(
            t.finished_at_s == pytest.approx(t.download_s + t.compute_s + t.upload_s)
            for t in results
        )
        assert spent_j >= before_j - 1e-9
        before_j = spent_j


def test_an_answer_at_the_moment_of_the_cut_counts_by_its_priority(tiny):
    tiny.size, tiny.samples = 2, [100, 100]  # equal boards on a constant channel
    tasks = [task(0, 0), task(1, 1)]
    batch = laid_out(world_of(tiny.fleet()), tasks)
    closes_s, last = batch.closing(1)
    batch.cut(closes_s, last, Outcome.CANCELLED)
    results = batch.settle()

    assert [t.outcome for t in results] == [Outcome.DELIVERED, Outcome.CANCELLED]
    assert results[1].uploaded_bit == PAYLOAD_BIT


def test_nothing_is_charged_before_a_task_has_ended(tiny):
    world = world_of(fleet_of(tiny, size=12, seed=5))
    before = standing(world)
    batch = laid_out(world, [task(c, c) for c in range(12)])

    assert standing(world) == before
    batch.settle()
    assert standing(world) != before


def test_a_client_is_never_in_two_tasks(tiny):
    world = world_of(tiny.fleet())

    with pytest.raises(SimulationError, match="in another task"):
        laid_out(world, [task(0, 1), task(1, 1)])
    laid_out(world, [task(2, 0)])
    with pytest.raises(SimulationError, match="in another task"):
        laid_out(world, [task(3, 2), task(4, 0)])


# --- no further than to where tasks are cut off ---------------------------------------------------


class Counted:
    """Usage that counts the calls for the owners' load."""

    def __init__(self, usage: Any) -> None:
        self._usage = usage
        self.num_asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usage, name)

    def load_after(self, clients: IntArray, t_s: FloatArray) -> Any:
        self.num_asked += 1
        return self._usage.load_after(clients, t_s)


def test_a_task_of_years_is_laid_out_up_to_its_deadline(tiny):
    """A load that changes every 10 s, 1e9 samples of 0.6 s each, and a deadline after 65 s."""
    tiny.trace("0,1,0,1,0 10,1,0,1,0.5", span_s=20)
    tiny.size, tiny.samples = 1, [10**9]
    fleet = tiny.fleet()
    usage = Counted(fleet.usage)
    batch = TaskBatch(
        world_of(dataclasses.replace(fleet, usage=usage)),
        [task(0, 0)],
        now_s=0.0,
        cost=COST,
        batch_size=10,
        cut_at_s=65.0,
    )
    batch.give_up(65.0)
    [late] = batch.settle()

    assert usage.num_asked <= 10
    assert (late.outcome, late.finished_at_s, late.compute_s) == (Outcome.LATE, 65.0, 64.0)
    # Computing from 1 s on: 9, 10, 10 and 5 s without load, three times 10 s at half speed.
    alone_s = 9.0 + 10.0 + 10.0 + 5.0 + 0.5 * 30.0
    assert late.energy_j[Component.COMPUTE] == pytest.approx(3.3 * alone_s)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(1, 10**6), deadline_s=st.floats(1.0, 60.0))
def test_what_ends_before_the_deadline_is_as_if_there_were_none(tiny, seed, deadline_s):
    fleet = fleet_of(tiny, size=12, seed=seed)
    tasks, ended = [task(c, c) for c in range(12)], []
    for cut_at_s in (deadline_s, math.inf):
        batch = TaskBatch(
            world_of(fleet), tasks, now_s=0.0, cost=COST, batch_size=10, cut_at_s=cut_at_s
        )
        batch.give_up(deadline_s)
        ended.append(batch.settle())

    for ours, theirs in zip(*ended, strict=True):
        if theirs.outcome is not Outcome.LATE:
            assert ours == theirs
        else:
            assert (ours.outcome, ours.finished_at_s) == (Outcome.LATE, deadline_s)
            assert ours.energy_j == pytest.approx(theirs.energy_j, rel=1e-9, abs=1e-12)
            assert ours.flop == pytest.approx(theirs.flop, rel=1e-9)
            assert ours.downloaded_bit == theirs.downloaded_bit
            assert ours.uploaded_bit == theirs.uploaded_bit
