"""Data sets that break their contract, each in one way."""

import random  # noqa: TID251
from dataclasses import replace

import numpy as np
import torch

import fleetsim
from fleetsim.learning.data.dataset import Dataset
from tests.user.variants import fails, variants

X = (np.arange(60).reshape(20, 3) / 60).astype(np.float32)
Y = np.arange(20) % 4


class Arrays:
    """A data set that keeps the contract."""

    def load(self):
        return (X, Y), (X[:5], Y[:5])


class Drawn:
    """Another, drawn from the scenario's seed."""

    def load(self, seed, num_clients):
        draws = np.random.default_rng(seed)
        x, y = draws.random((4 * num_clients, 3)), draws.integers(0, 3, 4 * num_clients)
        return fleetsim.dataset((x, y), client=np.arange(len(y)) % num_clients, test_fraction=0.25)


class Noisy:
    """Another, with samples that are made at each access."""

    def load(self):
        return fleetsim.dataset(
            Arrays().load(),
            transform=lambda x: x + torch.rand(1).numpy(),
            test_transform=lambda x: x,
            transform_each_access=True,
        )


class Made:
    """Another, whose arrays it makes itself."""

    def load(self):
        return Dataset(
            "made", X, Y, X[:5], Y[:5], num_classes=4, owner=Y, owner_names=tuple("abcd")
        )


class Items:
    """Items by index."""

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return X[index], int(Y[index])


class OfItems:
    """A data set of items that a subclass breaks."""

    items: type = Items

    def load(self):
        return self.items(), (X[:5], Y[:5])


class SaysTooManyItems(OfItems):
    class items(Items):  # noqa: N801
        def __len__(self):
            return 30


class ShufflesByRandom:
    def load(self):
        order = list(range(20))
        random.shuffle(order)
        return (X[order], Y[order]), (X[:5], Y[:5])


class SeedsTorch(Arrays):
    def load(self):
        torch.default_generator.manual_seed(3)
        return super().load()


def loads(make):
    return {"load": lambda self: make()}


def trains_on(make_inputs, make_labels=lambda: Y):
    return loads(lambda: ((make_inputs(), make_labels()), (X[:5], Y[:5])))


def at_each_access(make_transform):
    """Return a data set whose samples pass through a function that each loading makes."""
    return loads(
        lambda: fleetsim.dataset(
            Arrays().load(),
            transform=make_transform(),
            test_transform=lambda x: x,
            transform_each_access=True,
        )
    )


def drawing():
    draws = np.random.default_rng()
    return lambda x: x + draws.random()


def counting():
    reads = iter(range(1000))
    return lambda x: x + next(reads)


def made(**changes):
    return loads(lambda: replace(Made().load(), **changes))


TOKENS = X.astype(np.int64)
KIND = "dataset"
GOOD = [Arrays, Drawn, Noisy, Made, OfItems]
BROKEN = {
    SaysTooManyItems: "training part: item 20 fails: IndexError",
    ShufflesByRandom: "load draws from or seeds the global generator of random",
    SeedsTorch: "load draws from or seeds the global generator of torch",
} | variants(
    Arrays,
    {
        "NeedsAPath": ("cannot be called as load()", {"load": lambda self, path: None}),
        "CannotBeMade": ("fails: OSError: no such disk",
            {"__init__": fails(OSError("no such disk"))}),
        "DrawsWithoutASeed": ("load gives other train_inputs the second time",
            trains_on(lambda: X + np.random.default_rng().random())),
        "AccessWithoutASeed": ("item 0 gives two samples at one address", at_each_access(drawing)),
        "RemembersReads": ("gives two samples at one address", at_each_access(counting)),
        "MadeOfFloat64": (
            "load returned a data set whose train_inputs are float64 of shape (20, 3), not",
            made(train_inputs=X.astype(np.float64)),
        ),
        "MadeWithFewerLabels": ("whose train part has 20 inputs and 9 labels",
            made(train_labels=Y[:9])),
        "MadeWithTooFewClasses": ("whose train_labels are 0 to 3, outside 0 to 2 (num_classes - 1)",
            made(num_classes=3)),
        "MadeWithClientsThatSkip": ("whose owner skips a number", made(owner=2 * Y)),
        "MadeWithOneName": ("whose owner_names are 1 for 4 clients", made(owner_names=("a",))),
        "MadeWithNaN": ("whose test_inputs hold NaN or an infinite number in sample 0",
            made(test_inputs=np.full_like(X[:5], np.nan))),
        "MadeOfTokensAlone": ("whose inputs are tokens; give vocabulary_size",
            made(train_inputs=TOKENS, test_inputs=TOKENS[:5])),
        "MadeWithOtherTestShapes": (
            "whose test_inputs are of shape (2,) each, and train_inputs of (3,)",
            made(test_inputs=X[:5, :2]),
        ),
    },
)  # fmt: skip
