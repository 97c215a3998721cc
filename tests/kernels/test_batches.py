from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.contracts import Job, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.batches import (
    BatchSchedule,
    Length,
    StackJob,
    StepBlock,
    longest_first,
    schedule,
)
from fleetsim.kernels.conv.channels_last import ChannelsLastKernel
from fleetsim.kernels.stacked.stacked_sgd import StackedKernel
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.data.dataset import ByteImages
from fleetsim.learning.local import local_sgd
from tests.learning.digits_training import CNN, SIZES, SMALL, TRAIN, data_of, submitted, trainer_of
from tests.learning.side_by_side import LAST_BATCHES, ON_CUDA, all_same, same, vector_of

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

    assert (plan.client.tolist(), plan.epoch.tolist()) == ([0, 1, 0, 1, 0], [0, 0, 0, 1, 1])
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


EVERY = pytest.mark.parametrize(
    ("kind", "model"),
    [
        (Kernel, SMALL),
        (StackedKernel, SMALL),
        (VectorisedKernel, SMALL),
        (VectorisedKernel, CNN),
        (ChannelsLastKernel, CNN),
    ],
)
"""Every kernel, with models that it trains many or one at a time."""


@EVERY
def test_the_order_of_submission_and_of_asking_shows_in_no_bit(kind, model):
    (forwards, base), (backwards, _) = trainer_of(kind, model), trainer_of(kind, model)
    one = forwards.results(submitted(forwards, base))
    tickets = [backwards.submit(Job(client, TRAIN, base, (1,))) for client in range(9, -1, -1)]
    shuffled = [3, 9, 0, 4, 1, 8, 2, 7, 5, 6]
    other = dict(
        zip(shuffled, backwards.results([tickets[9 - client] for client in shuffled]), strict=True)
    )

    assert all(same(one[client], other[client]) for client in range(10))


@EVERY
def test_jobs_of_one_call_may_differ_in_everything(kind, model):
    (serial, base), (fast, _) = trainer_of(Kernel, model), trainer_of(kind, model)
    later = vector_of(serial.results([serial.submit(Job(4, TRAIN, base, (0,)))])[0])
    jobs = [
        Job(1, TRAIN, base, (1,)),
        Job(1, Work(WorkKind.TRAIN, epochs=5), later, (2,)),
        Job(0, Work(WorkKind.NONE), base, (1,)),
        Job(2, Work(WorkKind.EVALUATE, num_samples=2), later, (1,)),
        Job(0, Work(WorkKind.TRAIN, epochs=1), later, (2, 1)),
        Job(3, Work(WorkKind.GRADIENT), base, (1,)),
    ]
    expected, result = (t.results([t.submit(job) for job in jobs]) for t in (serial, fast))

    for one, other in zip(expected, result, strict=True):
        assert (one.vector is None) == (other.vector is None)
        assert (other.num_samples, other.accuracy) == (one.num_samples, one.accuracy)
        assert other.loss == (None if one.loss is None else pytest.approx(one.loss, rel=1e-4))
        if one.vector is not None:
            np.testing.assert_allclose(vector_of(other), one.vector, atol=1e-4)


@pytest.mark.parametrize("kind", [Kernel, StackedKernel, VectorisedKernel])
def test_no_step_is_computed_for_a_job_that_is_not_requested(kind: type[Kernel]) -> None:
    """Clients 0, 3 and 5 have 40, 17 and 1 samples: 3, 2 and 1 batches of 16, twice.

    Client 4 has 7 such batches, and is stopped in the second epoch.
    """
    trainer, base = trainer_of(kind)
    tickets = submitted(trainer, base)
    stopped = trainer.submit(Job(4, TRAIN, base, (2,), most_steps=9))
    for client in (1, 2, 9):
        trainer.cancel(tickets[client])
    assert trainer.num_steps == 0
    trainer.results([tickets[0], tickets[3], tickets[5], stopped])

    assert (trainer.num_computed, trainer.num_cancelled) == (4, 3)
    assert trainer.num_steps == 2 * (3 + 2 + 1) + 9


@EVERY
def test_the_servers_models_are_evaluated_as_by_serial_training(kind, model):
    (serial, base), (fast, _) = trainer_of(Kernel, model), trainer_of(kind, model)

    for one, other in (
        (serial.evaluate(base), fast.evaluate(base)),
        (serial.validate(base), fast.validate(base)),
    ):
        assert one is not None
        assert other is not None
        assert other.accuracy == one.accuracy
        assert other.loss == pytest.approx(one.loss, rel=1e-5)


@EVERY
def test_images_that_stay_bytes_are_trained_on_to_the_same_bits(kind, model):
    data = data_of(pixel_side=2 if model is CNN else 1)
    pixels = (data.train_inputs[:] * 255).astype(np.uint8)
    images = ByteImages(pixels, mean=(0.1307,), std=(0.3081,))
    ours = []
    for inputs in (np.asarray(images), images):
        trainer, base = trainer_of(kind, model, data=replace(data, train_inputs=inputs))
        kinds = (TRAIN, Work(WorkKind.GRADIENT), Work(WorkKind.EVALUATE, num_samples=2))
        results = [one for work in kinds for one in trainer.results(submitted(trainer, base, work))]
        ours.append((results, trainer.evaluate(base)))

    (plain, plain_score), (kept, kept_score) = ours
    assert all_same(plain, kept)
    assert plain_score == kept_score
    assert len({vector_of(one).tobytes() for one in kept[: len(SIZES)]}) == len(SIZES)


@pytest.mark.parametrize("kind", [pytest.param(k, marks=ON_CUDA) for k in (Kernel, StackedKernel)])
def test_a_cuda_device_trains_to_the_same_models_within_float_tolerance(kind: type[Kernel]) -> None:
    (on_cpu, base), (on_cuda, _) = trainer_of(kind), trainer_of(kind, torch_device="cuda")
    pairs = zip(*(t.results(submitted(t, base)) for t in (on_cpu, on_cuda)), strict=True)

    for one, other in pairs:
        np.testing.assert_allclose(vector_of(other), vector_of(one), atol=1e-4)
