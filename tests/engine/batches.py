"""Batches of tasks for tests of single tasks: builders, and laws that hold for any batch."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fleetsim.contracts import FloatArray, Outcome, ProbeRequest, Purpose, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.tasks.interruption import LoseSettings
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.engine.world import World
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
    fields: dict[str, Any] = {"round": 1, "job": None, "version": 0, "dispatched_at_s": 0.0}
    fields |= {"number": number, "request": kind(client, work), "work": work}
    fields |= {"address": (0, number), "download_bit": PAYLOAD_BIT, "upload_bit": PAYLOAD_BIT}
    return Task(**(fields | changes))


def fleet_of(tiny: Tiny, *, size: int, seed: int) -> Fleet:
    """Phones and boards on Wi-Fi and fading cells over TCP, with crashes, lost uploads, absent
    owners and weak batteries."""
    tiny.size, tiny.devices, tiny.seed = size, PHONES, seed
    tiny.samples = [20 + 13 * (client % 7) for client in range(size)]
    tiny.channel = {"kind": "fading", "block_s": 0.1, "give_up_s": 30.0, "unmetered_radio": "wifi"}
    tiny.channel["upload_success"] = [{"probability": 0.8}]
    tiny.transport = {"kind": "tcp"}
    tiny.traces({f"u{user}": _restless(user) for user in range(8)}, span_s=3600)
    tiny.battery = {"initial_fraction": [0.15, 0.1503]}
    tiny.crash_per_hour = 30.0
    return tiny.fleet()


def _restless(user: int) -> str:
    """States of an owner who does something else every half minute, and is online mostly."""
    draws = np.random.default_rng(user)
    online, others = draws.random(120) < 0.9, draws.integers(0, 2, (120, 3))
    return " ".join(
        f"{30 * at},{int(online[at])},{charging},{unmetered},{load / 2}"
        for at, (charging, unmetered, load) in enumerate(others.tolist())
    )


def world_of(fleet: Fleet, *, spare_byte: FloatArray | None = None, **rule: Any) -> World:
    return World(fleet, EligibilitySettings.model_validate(rule), spare_byte=spare_byte)


def laid_out(world: World, tasks: Sequence[Task], now_s: float = 0.0, **settings: Any) -> TaskBatch:
    """Return a batch; tasks are lost at an interruption unless settings say otherwise."""
    fields: dict[str, Any] = {"batching": Batching(10), "deadline_at_s": math.inf}
    fields |= {"interruption": LoseSettings(), **settings}
    return TaskBatch(world, tasks, now_s=now_s, cost=COST, **fields)


def ended(batch: TaskBatch, *, at_s: float = math.inf) -> list[TaskResult]:
    """Return the results of a batch that is cancelled at a moment."""
    if at_s < math.inf:
        batch.cut(at_s, priority(Rank.STOP), Outcome.CANCELLED)
    return batch.settle()


def rows_of(world: World) -> dict[str, bytes]:
    """Return the rows that changed."""
    return {key: array.tobytes() for key, array in world.take_changed().items()}


def go_together_as_alone(
    worlds: tuple[World, World], tasks: Sequence[Task], *, cut_share: float, enough: int, **settings
) -> tuple[list[TaskResult], float]:
    """Check that tasks cut off together equal those cut off alone, in two equal worlds.

    The cut is `cut_share` of the way from the dispatch to the `enough`-th delivery. Return the
    results and the last end.
    """
    now_s = tasks[0].dispatched_at_s
    batch = laid_out(worlds[0], tasks, now_s, **settings)
    at_s = now_s + cut_share * (batch.closing(enough)[0] - now_s)
    results = ended(batch, at_s=at_s)
    alone = [ended(laid_out(worlds[1], [one], now_s, **settings), at_s=at_s) for one in tasks]

    assert results == list(itertools.chain.from_iterable(alone))
    assert rows_of(worlds[0]) == rows_of(worlds[1])
    return results, float(batch.end_s.max())


def is_what_had_been_until_each_cut(
    new_world: Callable[[], World], tasks: Sequence[Task], *, moments: int, **settings: Any
) -> list[TaskResult]:
    """Check that a cut at any moment leaves what had been done and used until then.

    Tasks are dispatched at 0, and cut off at each end of one and at `moments` in between.
    """
    whole = laid_out(new_world(), tasks, **settings)
    between_s = np.linspace(0.0, whole.end_s.max(), moments)
    before_j, every = 0.0, []
    for cut_s in np.unique(np.append(whole.end_s, between_s)).tolist():
        world = new_world()
        results = ended(laid_out(world, tasks, **settings), at_s=cut_s)
        spent_j = math.fsum(math.fsum(one.energy_j) for one in results)

        assert spent_j == pytest.approx(world.energy_j.sum(), rel=1e-12)
        assert spent_j >= before_j - 1e-9
        for one in results:
            at_work_s = one.download_s + one.compute_s + one.upload_s
            assert one.finished_at_s <= cut_s
            assert one.finished_at_s == pytest.approx(at_work_s + one.paused_s)
        before_j = spent_j
        every += results
    assert before_j == pytest.approx(sum(math.fsum(one.energy_j) for one in whole.settle()))
    return every
