"""An idle cellular radio is promoted before the first bit; one in its tail is not."""

import pytest

from fleetsim.contracts import Work, WorkKind
from fleetsim.engine.world import World
from tests.engine.batches import ended, laid_out, task, world_of
from tests.engine.tiny import CONSTANT, Tiny

PROMOTION_S, PROMOTION_W, TAIL_S = 0.5821, 0.6594, 8.9124
RECEIVE_W = 0.81788 + 0.12212 * 8.0  # at 8 Mbit/s: one second for the megabyte of a task


@pytest.fixture
def world(tiny: Tiny) -> World:
    tiny.channel = {**CONSTANT, "unmetered_radio": "3g"}
    return world_of(tiny.fleet())


def test_the_first_transfer_waits_for_its_promotion_and_the_next_ones_do_not(world: World) -> None:
    [done] = laid_out(world, [task(0, 0, work=Work(WorkKind.NONE))]).settle()

    assert done.download_s == pytest.approx(PROMOTION_S + 1.0)
    assert done.upload_s == pytest.approx(1.0)
    assert done.energy_j[1] == pytest.approx(PROMOTION_W * PROMOTION_S + RECEIVE_W)


def test_a_computation_longer_than_the_tail_costs_another_promotion(world: World) -> None:
    [done] = laid_out(world, [task(0, 0)]).settle()

    assert done.compute_s > TAIL_S
    assert done.upload_s == pytest.approx(PROMOTION_S + 1.0)


def test_a_task_that_begins_in_the_tail_of_the_last_begins_at_once(world: World) -> None:
    [first] = laid_out(world, [task(0, 0)]).settle()
    inside_s = first.finished_at_s + TAIL_S - 0.5
    [second] = laid_out(world, [task(1, 0, upload_bit=0)], inside_s).settle()
    after_s = inside_s + 1.0 + second.compute_s + TAIL_S
    [third] = laid_out(world, [task(2, 0, upload_bit=0)], after_s).settle()

    assert second.download_s == pytest.approx(1.0)
    assert third.download_s == pytest.approx(PROMOTION_S + 1.0)


def test_a_radio_takes_its_share_of_a_link_when_it_is_awake(tiny: Tiny) -> None:
    """The one that is awake has the server's 8 Mbit/s to itself while the other wakes."""
    tiny.channel = {**CONSTANT, "unmetered_radio": "3g"}
    tiny.shared_links = {"server_out_bit_per_s": 8e6}
    [first] = laid_out(world := world_of(tiny.fleet()), [task(0, 0)]).settle()
    batch = laid_out(world, [task(1, 0), task(2, 1)], first.finished_at_s + 1.0)

    assert [t.download_s for t in batch.settle()] == pytest.approx([2.0 - PROMOTION_S, 2.0])


def test_a_task_that_is_cut_off_in_its_promotion_has_moved_nothing(world: World) -> None:
    [cut] = ended(laid_out(world, [task(0, 0)]), at_s=0.25)

    assert (cut.downloaded_bit, cut.finished_at_s) == (0.0, 0.25)
    assert cut.energy_j[1] == pytest.approx(PROMOTION_W * 0.25)
