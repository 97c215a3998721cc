"""Batches of tasks: each as if it were alone, and cut off at any moment."""

import math
from typing import Any
from unittest.mock import create_autospec

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetsim.contracts import Outcome, Work, WorkKind
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.errors import SimulationError
from fleetsim.fleet.energy import Component
from tests.engine.batches import (
    PAYLOAD_BIT,
    fleet_of,
    go_together_as_alone,
    is_what_had_been_until_each_cut,
    laid_out,
    task,
    world_of,
)

KINDS: list[dict[str, Any]] = [
    {}, {"download_bit": 0}, {"work": Work(WorkKind.NONE)}, {"upload_bit": 64},
]  # fmt: skip


# Few examples: each lays 24 tasks out one by one.
@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(1, 10**6), cut_share=st.floats(0.0, 1.1), enough=st.integers(1, 12))
def test_tasks_go_together_as_they_go_alone(tiny, seed, cut_share, enough):
    fleet = fleet_of(tiny, size=12, seed=seed)
    worlds = (world_of(fleet), world_of(fleet))
    for now_s in (0.0, 40.0):  # the second time after tails and losses
        tasks = [task(c, c, **KINDS[c % 4], dispatched_at_s=now_s) for c in range(12)]
        go_together_as_alone(worlds, tasks, cut_share=cut_share, enough=enough)


@pytest.mark.slow
@pytest.mark.parametrize(
    "links", [None, {"cells": 2, "cell_up_bit_per_s": 2e7, "cell_down_bit_per_s": 3e7}]
)
def test_what_is_cut_off_is_what_would_have_been_until_then(tiny, links):
    tiny.shared_links = links
    fleet = fleet_of(tiny, size=12, seed=3)
    tasks = [task(c, c) for c in range(12)]
    is_what_had_been_until_each_cut(lambda: world_of(fleet), tasks, moments=12)


def test_an_answer_at_the_moment_of_the_cut_counts_by_its_priority(tiny):
    tiny.size, tiny.samples = 2, [100, 100]  # equal boards on a constant channel
    tasks = [task(0, 0), task(1, 1)]
    batch = laid_out(world_of(tiny.fleet()), tasks)
    closes_s, last = batch.closing(1)
    batch.cut(closes_s, last, Outcome.CANCELLED)
    results = batch.settle()

    assert [t.outcome for t in results] == [Outcome.DELIVERED, Outcome.CANCELLED]
    assert results[1].uploaded_bit == PAYLOAD_BIT


def test_a_client_is_never_in_two_tasks(tiny):
    world = world_of(tiny.fleet())

    with pytest.raises(SimulationError, match="in another task"):
        laid_out(world, [task(0, 1), task(1, 1)])
    laid_out(world, [task(2, 0)])
    with pytest.raises(SimulationError, match="in another task"):
        laid_out(world, [task(3, 2), task(4, 0)])


def test_a_task_of_years_is_laid_out_up_to_its_deadline(tiny, monkeypatch):
    """A load that changes every 10 s, 1e9 samples of 0.6 s each, and a deadline after 65 s."""
    tiny.trace("0,1,0,1,0 10,1,0,1,0.5", span_s=20)
    tiny.size, tiny.samples = 1, [10**9]
    fleet = tiny.fleet()
    usage = type(fleet.usage)
    counted = create_autospec(usage.load_after, side_effect=usage.load_after)
    monkeypatch.setattr(usage, "load_after", counted)
    batch = laid_out(world_of(fleet), [task(0, 0)], deadline_at_s=65.0)
    batch.give_up(65.0)
    [late] = batch.settle()

    assert 0 < counted.call_count <= 10
    assert (late.outcome, late.finished_at_s, late.compute_s) == (Outcome.LATE, 65.0, 64.0)
    # Computing from 1 s on: 9, 10, 10 and 5 s without load, three times 10 s at half speed.
    alone_s = 9.0 + 10.0 + 10.0 + 5.0 + 0.5 * 30.0
    assert late.energy_j[Component.COMPUTE] == pytest.approx(3.3 * alone_s)


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(1, 10**6), deadline_s=st.floats(1.0, 60.0))
def test_what_ends_before_the_deadline_is_as_if_there_were_none(tiny, seed, deadline_s):
    fleet = fleet_of(tiny, size=12, seed=seed)
    tasks, both = [task(c, c) for c in range(12)], []
    for deadline_at_s in (deadline_s, math.inf):
        batch: TaskBatch = laid_out(world_of(fleet), tasks, deadline_at_s=deadline_at_s)
        batch.give_up(deadline_s)
        both.append(batch.settle())

    for ours, theirs in zip(*both, strict=True):
        if theirs.outcome is not Outcome.LATE:
            assert ours == theirs
        else:
            assert (ours.outcome, ours.finished_at_s) == (Outcome.LATE, deadline_s)
            assert ours.energy_j == pytest.approx(theirs.energy_j, rel=1e-9, abs=1e-12)
            assert ours.flop == pytest.approx(theirs.flop, rel=1e-9)
            assert ours.downloaded_bit == theirs.downloaded_bit
            assert ours.uploaded_bit == theirs.uploaded_bit
