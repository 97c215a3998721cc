"""Tasks whose transfers share links, from dispatch to record.

Boards as in test_synchronous: alone a transfer takes 1 s (8 Mbit at 8 Mbit/s) and 2 W on Wi-Fi, on
top of 2.1 W idle.
"""

import math
from fractions import Fraction
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetsim.contracts import Outcome, Work, WorkKind
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.errors import SimulationError
from fleetsim.fleet.energy import Component
from tests.engine.batches import (
    EPOCH,
    PAYLOAD_BIT,
    fleet_of,
    go_together_as_alone,
    is_what_had_been_until_each_cut,
    laid_out,
    task,
    world_of,
)
from tests.fleet.fair import Flow, ends

COMPUTE_S = 2 * (0.02 + 0.0105) + 300 / 4.958
WIDE = {"server_in_bit_per_s": 1e15, "server_out_bit_per_s": 1e15}


def settled(world, tasks):
    return laid_out(world, tasks).settle()


def numbers(tasks):
    return np.array(
        [
            [
                *(t.finished_at_s, t.download_s, t.compute_s, t.upload_s, t.flop),
                *(*t.energy_j, t.downloaded_bit, t.uploaded_bit),
            ]
            for t in tasks
        ]
    )


@pytest.mark.parametrize("k", [1, 3, 20])
def test_k_equal_clients_transfer_in_k_times_the_time_of_one(tiny, k):
    tiny.size, tiny.server = k, {"cohort": k}
    tiny.shared_links = {"cell_up_bit_per_s": 8e6, "server_out_bit_per_s": 8e6}
    tiny.run()

    for row in tiny.recorder.tasks:
        assert row.outcome is Outcome.DELIVERED
        assert (row.download_s, row.upload_s) == pytest.approx((k, k), rel=1e-9)
        assert row.finished_at_s == pytest.approx(2 * k + COMPUTE_S)
        assert (row.energy_receive_j, row.energy_transmit_j) == pytest.approx((2.0 * k, 2.0 * k))
        assert row.energy_idle_j == pytest.approx(2.1 * (2 * k + COMPUTE_S))


def in_a_cell(tiny, **channel):
    tiny.devices, tiny.network = {"pixel-6": 1.0}, {"kind": "cellular"}
    tiny.channel = {"fading": "none", "unmetered_radio": "wifi", **channel}


@pytest.mark.parametrize("k", [1, 2, 5])
def test_k_equal_clients_of_a_cell_divide_its_band(tiny, k):
    """At 0 dB the band of 8 MHz carries 8 Mbit/s down, and k parts of it, each at k times the
    ratio, 8 log2(1 + k) Mbit/s up."""
    in_a_cell(tiny, kind="normalised", mean_snr_db=0.0, bandwidth_hz=8e6)
    tiny.size, tiny.shared_links = k, {"cells": 1}
    tasks = settled(world_of(tiny.fleet()), [task(c, c) for c in range(k)])

    for row in tasks:
        assert row.download_s == pytest.approx(k)
        assert row.upload_s == pytest.approx(k / math.log2(1 + k))


def test_clients_of_several_cells_share_with_their_own(tiny):
    in_a_cell(tiny, kind="normalised", mean_snr_db=0.0, bandwidth_hz=8e6)
    tiny.size, tiny.shared_links = 12, {"cells": 3}
    fleet = tiny.fleet()
    cell = fleet.access.shared.cell
    tasks = settled(world_of(fleet), [task(c, c) for c in range(12)])

    size = np.bincount(cell)[cell]
    assert len(set(size.tolist())) > 1
    assert [row.download_s for row in tasks] == pytest.approx(size)


@pytest.mark.parametrize("client", range(4))
def test_who_is_alone_in_a_cell_has_what_it_has_without_cells(tiny, client):
    tiny.size, tiny.transport = 4, {"kind": "tcp"}
    in_a_cell(tiny, kind="fading", fading="rayleigh", cell_radius_m=3000.0, block_s=0.1)
    rows = []
    for tiny.shared_links in (None, {"cells": 1}):
        rows += settled(world_of(tiny.fleet()), [task(0, client)])

    assert numbers(rows[1:]) == pytest.approx(numbers(rows[:1]), rel=1e-12)


def test_an_upload_that_begins_later_slows_the_one_before(tiny):
    # The second client computes d longer. The first is alone for d, then both get half: 8 Mbit are
    # through after d + 2 (1 - d); after 2 s both are.
    tiny.size, tiny.samples, tiny.shared_links = 2, [100, 101], {"cell_up_bit_per_s": 8e6}
    d = 0.0305 + 3 / 4.958
    first, second = tiny.rows()

    assert (first.upload_s, second.upload_s) == pytest.approx((2.0 - d, 2.0 - d))
    assert second.finished_at_s - first.finished_at_s == pytest.approx(d)


def test_a_client_that_goes_leaves_its_share_to_the_others(tiny, monkeypatch):
    tiny.size, tiny.shared_links = 2, {"server_in_bit_per_s": 8e6}
    gone_s = 1.0 + 10 * 0.0305 + 300 / 4.958 + 1.0  # after half of its upload
    world = world_of(tiny.fleet())
    monkeypatch.setattr(world.eligible, "gone_after_s", lambda *_: np.array([gone_s, np.inf]))
    gone, stays = settled(world, [task(0, 0), task(1, 1)])

    assert (gone.outcome, gone.uploaded_bit) == (Outcome.OFFLINE, pytest.approx(PAYLOAD_BIT / 2))
    assert stays.upload_s == pytest.approx(1.5)


def test_links_wide_enough_for_all_leave_every_task_as_it_was(tiny):
    def tasks_of(links):
        tiny.shared_links = links
        world = world_of(fleet_of(tiny, size=60, seed=8))
        return settled(world, [task(c, c) for c in range(60)])

    alone, together = tasks_of(None), tasks_of(WIDE)

    assert [t.outcome for t in together] == [t.outcome for t in alone]
    assert len({t.outcome for t in alone}) >= 3
    np.testing.assert_allclose(numbers(together), numbers(alone), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(1, 10**6),
    up_mbit_per_s=st.integers(4, 30),
    in_mbit_per_s=st.integers(6, 40),
    work=st.integers(0, 3),
)
def test_batteries_that_die_in_an_upload_leave_their_share_to_the_others(
    tiny, seed, up_mbit_per_s, in_mbit_per_s, work
):
    """With LTE's energy per bit, so that the power of clients depends on earlier losses.

    A share that is free in one cell may even take from the other: both go to the server.
    """
    tiny.size, tiny.seed = 10, seed
    tiny.devices = {"pixel-6": 0.5, "redmi-note-10": 0.5}
    tiny.samples = [1 + client % 4 for client in range(10)]
    tiny.trace("0,1,0,0,0", span_s=1000)
    tiny.battery = {"initial_fraction": [0.15, 0.1502]}
    tiny.shared_links = {"cells": 2, "cell_up_bit_per_s": up_mbit_per_s * 1e6}
    tiny.shared_links["server_in_bit_per_s"] = in_mbit_per_s * 1e6
    fleet = tiny.fleet()
    bit, works = 16_000_000, [Work(WorkKind.NONE)] * work + [EPOCH] * (10 - work)
    sent = [task(c, c, works[c], download_bit=0, upload_bit=bit) for c in range(10)]
    tasks = settled(world_of(fleet), sent)
    came_to_upload = [t for t in tasks if t.upload_s > 0.0]
    flows = [
        Flow(
            start=Fraction(t.finished_at_s) - Fraction(t.upload_s),
            bits=Fraction(bit),
            demands=[(Fraction(0), Fraction(8_000_000))],
            cell=int(fleet.access.shared.cell[t.task.client]),
            lost=Fraction(t.finished_at_s) if t.outcome is Outcome.BATTERY else None,
            give_up=Fraction(3600),
        )
        for t in came_to_upload
    ]
    cells = [Fraction(up_mbit_per_s * 10**6)] * 2
    reference = ends(flows, cells, Fraction(in_mbit_per_s * 10**6)) if flows else []
    at_s, moved_bit = ([float(end[i]) for end in reference] for i in (0, 1))
    capacity_j = fleet.batteries.capacity_j

    assert [t.finished_at_s for t in came_to_upload] == pytest.approx(at_s, rel=1e-9)
    uploaded_bit = [t.uploaded_bit for t in came_to_upload]
    assert uploaded_bit == pytest.approx(moved_bit, rel=1e-6, abs=1.0)
    for t in tasks:
        compute_j, _, transmit_j, _, idle_j = t.energy_j
        left_j = float(fleet.initial_j[t.task.client]) - compute_j - transmit_j - idle_j
        cutoff_j = fleet.batteries.cutoff_fraction * float(capacity_j[t.task.client])
        if t.outcome is Outcome.BATTERY:
            assert left_j == pytest.approx(cutoff_j, abs=1e-6)
        else:
            assert left_j >= cutoff_j


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
