"""Samples that the user's transform makes anew at each access, in a run and on their own."""

import random  # noqa: TID251 - the user's transform draws from it

import numpy as np
import pytest
import torch

from fleetsim import rng
from fleetsim.contracts import Job, SampleForm, Work, WorkKind
from fleetsim.errors import DataError
from fleetsim.kernels.access_kernel import AccessKernel
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.data.dataset import AccessedInputs
from fleetsim.learning.local.local_sgd import orders
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import LogisticSettings
from fleetsim.training.trainers import DataTrainer
from fleetsim.user.data.user_dataset import dataset
from fleetsim.user.watched_calls import same

SEED = 5
X = np.arange(30, dtype=np.float32).reshape(10, 3) / 30
Y = np.arange(10) % 2
SHARES = (np.array([0, 2, 4, 6]), np.array([1, 3, 5, 7, 9]))
RATE = 0.1


ADDS = {
    "random": lambda x: x + np.float32(random.random()),
    "numpy": lambda x: x + np.float32(np.random.rand()),  # noqa: NPY002
    "torch": lambda x: x + torch.rand(1).numpy()[0],
}
"""Transforms that add a draw from a global generator."""


def own(transform, data=(X, Y), **options):
    return dataset(
        (data, (X, Y)),
        transform=transform,
        test_transform=lambda x: x,
        transform_each_access=True,
        **options,
    ).load()


def expected_draw(generator, *address):
    """The first draw of a generator that was seeded by the address."""
    number = rng.torch_seed(SEED, "data/access", *address)
    if generator == "random":
        return random.Random(number).random()
    if generator == "numpy":
        return np.random.RandomState([number % 2**32, number // 2**32]).rand()
    return torch.rand(1, generator=torch.Generator().manual_seed(number)).item()


@pytest.mark.parametrize("generator", ADDS)
def test_a_draw_depends_on_its_address_alone(generator):
    inputs = own(ADDS[generator]).accessed

    taken = inputs.taken(np.array([7, 2]), [0, 3], seed=SEED, address=(1, 4))

    for row, (item, visit) in zip(taken, [(7, 0), (2, 3)], strict=True):
        draw = np.float32(expected_draw(generator, 1, 4, item, visit))
        np.testing.assert_array_equal(row, X[item] + draw)
    assert inputs.shape == (10, 3)


def test_a_drawn_test_part_keeps_the_numbers_of_the_items():
    items = [(x, int(y)) for x, y in zip(X, Y, strict=True)]
    loaded = dataset(
        items, test_fraction=0.3, transform=lambda x: x, transform_each_access=True
    ).load()
    inputs = loaded.accessed

    assert inputs is not None
    assert len(inputs) == 7
    assert loaded.test_inputs.shape == (3, 3)
    taken = inputs.taken(np.arange(7), [0] * 7, seed=SEED, address=())
    both = np.concatenate([taken, loaded.test_inputs])
    np.testing.assert_array_equal(both[both[:, 0].argsort()], X)
    np.testing.assert_array_equal(taken, X[inputs.items])


def test_images_of_bytes_become_numbers():
    pixels = np.full((10, 4, 4, 3), 51, dtype=np.uint8)
    loaded = dataset(((pixels, Y), (pixels, Y)), transform_each_access=True).load()

    assert loaded.sample_shape == (3, 4, 4)
    taken = loaded.accessed.taken(np.array([0]), [0], seed=SEED, address=())  # type: ignore[union-attr]
    assert taken.dtype == np.float32
    assert taken.min() == taken.max() == np.float32(51) / np.float32(255)
    assert loaded.test_inputs.max() == taken.max()


def test_tokens_stay_within_the_vocabulary():
    more = iter([0] * 11 + [1])
    tokens = np.arange(10)[:, None]
    loaded = dataset(
        ((tokens, Y), (tokens, Y)),
        transform=lambda x: x + next(more),
        test_transform=lambda x: x,
        transform_each_access=True,
    ).load()

    inputs = loaded.accessed
    assert inputs is not None
    assert loaded.vocabulary_size == 10
    assert inputs.taken(np.array([9]), [0], seed=SEED, address=()).tolist() == [[9]]
    with pytest.raises(DataError, match=r"item 9 holds the token 10, larger than any .* \(9\)"):
        inputs.taken(np.array([9]), [0], seed=SEED, address=())


def kernel_on(inputs, kind, **changes):
    settings = LocalSettings(epochs=2, batch_size=2, optimizer=SgdSettings(learning_rate=RATE))
    module = build_model(LogisticSettings(), SampleForm((3,), 2), seed=SEED)
    is_accessed = isinstance(inputs, AccessedInputs)
    data = TrainerData(
        train_inputs=np.empty((10, 0), np.float32) if is_accessed else inputs,
        accessed=inputs if is_accessed else None,
        train_labels=Y,
        shares=SHARES,
        test_inputs=X,
        test_labels=Y,
        validation_rows=np.array([8]),
    )
    return kind(module, data, local_settings=settings, seed=SEED, **changes), flatten(module)


def jobs(base, kinds=(WorkKind.TRAIN, WorkKind.EVALUATE, WorkKind.GRADIENT)):
    return [
        Job(client, Work(kind, epochs=2 if kind is WorkKind.TRAIN else 0), base, (3, place))
        for place, kind in enumerate(kinds)
        for client in (0, 1)
    ]


def computed(kernel, requested):
    return [kernel.compute([job])[0] for job in requested]


def test_a_transform_without_draws_trains_as_the_reference():
    plain, base = kernel_on(X * np.float32(2), Kernel)
    each, _ = kernel_on(own(lambda x: x * np.float32(2)).accessed, AccessKernel)

    assert same(computed(each, jobs(base)), computed(plain, jobs(base)))
    for server_set in ("test", "validation"):
        stop = plain.num_server_samples(server_set)
        one, two = (kernel.evaluate(base, server_set, 0, stop) for kernel in (each, plain))
        assert same(one, two)


def test_every_epoch_sees_other_draws():
    """A training equals one whose samples of each epoch were drawn by hand."""
    kernel, base = kernel_on(own(ADDS["torch"]).accessed, AccessKernel)
    (job, *_) = jobs(base)
    weights = torch.tensor(base[:6]).view(2, 3).double()
    bias = torch.tensor(base[6:]).double()
    order = orders(rng.stream(SEED, "local", 0, 3, 0), 2, 4)

    (result,) = kernel.compute([job])

    for epoch in range(2):
        for batch in (order[epoch][:2], order[epoch][2:]):
            items = SHARES[0][batch]
            drawn = [expected_draw("torch", 0, 3, 0, int(item), epoch) for item in items]
            inputs = torch.tensor(X[items]).double() + torch.tensor(drawn).double()[:, None]
            scores = inputs @ weights.T + bias
            slope = scores.softmax(1) - torch.eye(2).double()[Y[items]]
            weights -= RATE * slope.T @ inputs / 2
            bias -= RATE * slope.mean(0)
    assert result.vector is not None
    np.testing.assert_allclose(result.vector[:6], weights.flatten(), atol=1e-6)
    np.testing.assert_allclose(result.vector[6:], bias, atol=1e-6)


def test_results_depend_neither_on_the_order_nor_on_the_processes():
    inputs = own(ADDS["numpy"]).accessed
    kernel, base = kernel_on(inputs, AccessKernel)
    some = jobs(base)
    alone = computed(kernel, some)
    backwards = computed(kernel_on(inputs, AccessKernel)[0], some[::-1])[::-1]
    trainer = DataTrainer(kernel_on(inputs, AccessKernel)[0], workers=2)
    shared = trainer.results([trainer.submit(job) for job in some])

    assert same(alone, backwards)
    assert same(alone, shared)
    other = kernel.compute([some[0]._replace(address=(4, 0))])[0]
    assert not same(alone[0].vector, other.vector)


def test_samples_keep_their_shape_and_their_label():
    reads = iter(range(100))

    class Grows(list):  # type: ignore[type-arg]
        def __getitem__(self, index):
            return np.zeros(3 if next(reads) < 10 else 4), 0

    class Changes(list):  # type: ignore[type-arg]
        def __getitem__(self, index):
            return np.zeros(3), int(next(reads) >= 25)

    first = own(None, Grows(range(10))).accessed
    with pytest.raises(DataError, match=r"item 4 has shape \(4,\), the first has \(3,\)"):
        first.taken(np.array([4]), [0], seed=SEED, address=())
    second = own(None, Changes(range(10))).accessed
    for _ in range(4):
        second.taken(np.array([4]), [0], seed=SEED, address=())
    with pytest.raises(DataError, match="item 6 has the label 1, and had 0 when it was read first"):
        second.taken(np.array([6]), [0], seed=SEED, address=())
