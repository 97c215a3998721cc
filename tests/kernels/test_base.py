from dataclasses import replace

import numpy as np
import pytest

from fleetsim.contracts import Job, Work, WorkKind
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.conv.channels_last import ChannelsLastKernel
from fleetsim.kernels.stacked.stacked_sgd import StackedKernel
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.data.dataset import ByteImages
from tests.learning.digits_training import CNN, SIZES, SMALL, TRAIN, data_of, submitted, trainer_of
from tests.learning.side_by_side import ON_CUDA, all_same, same, vector_of

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
        assert other.num_samples == one.num_samples
        assert other.accuracy == one.accuracy
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
