import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.counts import Batching
from fleetsim.kernels.batches import (
    BatchSchedule,
    Length,
    StackJob,
    StepBlock,
    longest_first,
    schedule,
)
from fleetsim.learning.local import local_sgd
from tests.learning.side_by_side import LAST_BATCHES

BASE = np.zeros(1, np.float32)


def job(rows: range, epochs: int = 1, most_steps: int | None = None) -> StackJob:
    """It goes through its rows backwards, so that batches are known by hand."""
    orders = np.tile(np.arange(len(rows))[::-1], (epochs, 1))
    return StackJob(BASE, np.array(rows), orders, most_steps)


def batches_of(plan: BatchSchedule, client: int) -> list[list[int]]:
    """Return the samples of a client, step after step, without padding."""
    return [
        rows[weights > 0].tolist()
        for rows, weights, owner in zip(plan.rows, plan.weights, plan.client, strict=True)
        if owner == client
    ]


def test_steps_are_one_part_each_with_padding_that_weighs_nothing_or_parts_of_one_size() -> None:
    """Five samples of one client in batches of 2, then three of another: at step 2 (of 1 .. 3) the
    first has a full batch, the second the rest of its samples."""
    jobs = [job(range(5)), job(range(10, 13))]
    padded, cut = (schedule(jobs, Batching(2), is_padded=is_padded) for is_padded in (True, False))
    first, last = StepBlock(0, 2, 2, True, 1), StepBlock(4, 5, 1, True, 3)

    assert padded.blocks == (first, StepBlock(2, 4, 2, True, 2), last)
    assert padded.rows.tolist() == [[4, 3], [12, 11], [2, 1], [10, 10], [0, 0]]
    assert padded.weights.tolist() == [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [1, 0], [1, 0]]
    assert padded.is_last_epoch.all()
    halves = StepBlock(2, 3, 2, False, 2), StepBlock(3, 4, 1, False, 2)
    assert cut.blocks == (first, *halves, last)
    assert padded.client.tolist() == cut.client.tolist() == [0, 1, 0, 1, 0]


def test_mean_losses_of_epochs_end_with_the_last_step() -> None:
    """Three samples in batches of 2, for three of four steps; one sample for two epochs, silent.

    Epochs of the first: samples that lost 1, 3 and 8, then 9 and 3; its padding is not finite.
    """
    telling = job(range(3), epochs=2, most_steps=3)._replace(tells_epoch_losses=True)
    jobs = [telling, job(range(7, 8), epochs=2)]
    plan = schedule(jobs, Batching(2), is_padded=True)

    assert plan.client.tolist() == [0, 1, 0, 1, 0]
    assert plan.epoch.tolist() == [0, 0, 0, 1, 1]
    assert plan.wants_losses(jobs).tolist() == [True, False, True, True, True]
    losses = np.array([[1.0, 3.0], [5.0, 5.0], [8.0, np.nan], [7.0, np.nan], [9.0, 3.0]])
    one, other = plan.results(jobs, losses, [BASE, BASE])
    assert one.epoch_losses == (4.0, 6.0)
    assert (one.loss, other.loss, other.epoch_losses) == (6.0, 7.0, None)
    assert one.loss_rms == pytest.approx(45**0.5)
    assert (one.num_samples, other.num_samples, other.loss_rms) == (3, 1, 7.0)
    assert plan.wants_losses(jobs[1:] * 2).tolist() == plan.is_last_epoch.tolist()


def test_longest_means_most_steps_then_most_samples() -> None:
    """Steps 1, 2, 2 and 4."""
    lengths = [Length(4, 1), Length(5, 1), Length(8, 1), Length(5, 2)]

    assert longest_first(lengths, Batching(4)) == [3, 2, 1, 0]
    assert longest_first([*lengths[:3], Length(50, 9, most_steps=1)], Batching(4)) == [2, 1, 3, 0]


def cut_up(rows: list[int], size: int, last: str) -> list[list[int]]:
    """Cut an epoch into batches in its order."""
    cut = [rows[at : at + size] for at in range(0, len(rows), size)]
    rest = cut.pop() if len(cut) > 1 and len(cut[-1]) < size and last != "keep" else []
    return [*cut[:-1], cut[-1] + rest * (last == "merge")]


clients_of_one_stack = st.lists(
    st.tuples(st.integers(1, 20), st.integers(1, 3), st.none() | st.integers(1, 9)),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@given(clients_of_one_stack, st.integers(1, 25), st.sampled_from(LAST_BATCHES), st.booleans())
def test_every_client_takes_the_batches_that_its_stream_draws(clients, batch_size, last, is_padded):
    batching = Batching(batch_size, last)
    jobs: list[StackJob] = []
    expected: list[list[list[int]]] = []
    for k, (size, epochs, most) in enumerate(clients):
        rows = np.arange(100 * k, 100 * k + size)
        orders = local_sgd.orders(rng.stream(1, "test", k), epochs, size)
        jobs.append(StackJob(BASE, rows, orders, most))
        words = rng.stream(1, "test", k).bit_generator.random_raw(epochs * size)
        drawn = [rows[np.argsort(each)] for each in words.reshape(epochs, size)]
        batches = [batch for rows in drawn for batch in cut_up(rows.tolist(), batch_size, last)]
        expected.append(batches[:most])
    order = longest_first([one.length for one in jobs], batching)
    plan = schedule([jobs[k] for k in order], batching, is_padded=is_padded)

    for place, k in enumerate(order):
        assert batches_of(plan, place) == expected[k]
    assert plan.weights.sum(axis=1) == pytest.approx(np.ones(len(plan.rows)))
    assert [block.start for block in plan.blocks[1:]] == [block.stop for block in plan.blocks[:-1]]
    for block in plan.blocks:
        weights = plan.weights[block.start : block.stop]
        assert (weights[:, block.num_columns :] == 0).all()
        assert is_padded or (weights[:, : block.num_columns] > 0).all()
        owners = plan.client[block.start : block.stop].tolist()
        assert not block.is_prefix or owners == list(range(len(owners)))
        assert len(set(owners)) == len(owners)
