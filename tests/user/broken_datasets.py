"""Data sets that break their contract, each in one way."""

# ruff: noqa: NPY002 - these plug-ins do what fleetsim itself must not

from __future__ import annotations

import random  # noqa: TID251
from dataclasses import replace

import numpy as np
import torch

import fleetsim
from fleetsim.learning.data.dataset import Dataset

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


class NeedsAPath:
    def load(self, path):
        return Arrays().load()


class CannotBeMade(Arrays):
    def __init__(self):
        raise OSError("no such disk")


class LoadsNothing:
    def load(self):
        return None


class HasNoTestPart:
    def load(self):
        return X, Y


class LabelsFromMinusOne:
    def load(self):
        return (X, Y - 1), (X[:5], Y[:5])


class LabelsOutOfRange:
    def load(self):
        return fleetsim.dataset(Arrays().load(), num_classes=3)


class LabelsAreShares:
    def load(self):
        return (X, Y / 3), (X[:5], Y[:5])


class HasNaN:
    def load(self):
        return (np.where(X[7] == X, np.nan, X), Y), (X[:5], Y[:5])


class UnequalShapes(OfItems):
    class items(Items):  # noqa: N801
        def __getitem__(self, index):
            return X[index, : 2 if index == 6 else 3], 0


class SaysTooManyItems(OfItems):
    class items(Items):  # noqa: N801
        def __len__(self):
            return 30


class FailsAtAnItem(OfItems):
    class items(Items):  # noqa: N801
        def __getitem__(self, index):
            return X[index], {0: 1}[index]


class PartsDiffer:
    def load(self):
        return (X, Y), (X[:5, :2], Y[:5])


class DrawsFromNumpy(OfItems):
    class items(Items):  # noqa: N801
        def __getitem__(self, index):
            return X[index] + np.random.rand(), 0


class ShufflesByRandom:
    def load(self):
        order = list(range(20))
        random.shuffle(order)
        return (X[order], Y[order]), (X[:5], Y[:5])


class SeedsTorch(Arrays):
    def load(self):
        torch.default_generator.manual_seed(3)
        return super().load()


class DrawsWithoutASeed:
    def load(self):
        return (X + np.random.default_rng().random(), Y), (X[:5], Y[:5])


class OtherLabelsEachTime:
    def load(self):
        return (X, np.random.default_rng().integers(0, 1000, 20)), (X[:5], Y[:5])


class AccessWithoutASeed:
    def load(self):
        draws = np.random.default_rng()
        return fleetsim.dataset(
            Arrays().load(),
            transform=lambda x: x + draws.random(),
            test_transform=lambda x: x,
            transform_each_access=True,
        )


class RemembersReads:
    def load(self):
        reads = iter(range(1000))
        return fleetsim.dataset(
            Arrays().load(),
            transform=lambda x: x + next(reads),
            test_transform=lambda x: x,
            transform_each_access=True,
        )


class MadeOfFloat64(Made):
    def load(self):
        return replace(super().load(), train_inputs=X.astype(np.float64))


class MadeWithFewerLabels(Made):
    def load(self):
        return replace(super().load(), train_labels=Y[:9])


class MadeWithTooFewClasses(Made):
    def load(self):
        return replace(super().load(), num_classes=3)


class MadeWithClientsThatSkip(Made):
    def load(self):
        return replace(super().load(), owner=2 * Y)


class MadeWithOneName(Made):
    def load(self):
        return replace(super().load(), owner_names=("a",))


class MadeWithNaN(Made):
    def load(self):
        return replace(super().load(), test_inputs=np.full_like(X[:5], np.nan))


class MadeOfTokensAlone(Made):
    def load(self):
        tokens = X.astype(np.int64)
        return replace(super().load(), train_inputs=tokens, test_inputs=tokens[:5])


class MadeWithOtherTestShapes(Made):
    def load(self):
        return replace(super().load(), test_inputs=X[:5, :2])


KIND = "dataset"
GOOD = [Arrays, Drawn, Noisy, Made, OfItems]
BROKEN = {
    NeedsAPath: "cannot be called as load()",
    CannotBeMade: "fails: OSError: no such disk",
    LoadsNothing: "training part is of type NoneType; expected a torch Dataset, a pair of arrays",
    HasNoTestPart: "has no test part; give (train, test), or",
    LabelsFromMinusOne: "training part: labels: it holds the label -1",
    LabelsOutOfRange: "training part: labels: label 3 of sample 3 is outside 0..2",
    LabelsAreShares: "labels holds float64 of shape (20,); labels are whole numbers [n]",
    HasNaN: "training part: inputs: sample 7 holds a number that is NaN",
    UnequalShapes: "training part: inputs: sample 6 has shape (2,), sample 0 has (3,)",
    SaysTooManyItems: "training part: item 20 fails: IndexError",
    FailsAtAnItem: "training part: item 1 fails: KeyError: 1",
    PartsDiffer: "test part: inputs: samples of shape (2,) and float32",
    DrawsFromNumpy: "training part: item 0 draws from the global generator of numpy",
    ShufflesByRandom: "load draws from or seeds the global generator of random",
    SeedsTorch: "load draws from or seeds the global generator of torch",
    DrawsWithoutASeed: "load gives other train_inputs the second time",
    OtherLabelsEachTime: "load gives other train_labels the second time",
    AccessWithoutASeed: "item 0 gives two samples at one address",
    RemembersReads: "gives two samples at one address",
    MadeOfFloat64: "load returned a data set whose train_inputs are float64 of shape (20, 3), not",
    MadeWithFewerLabels: "whose train part has 20 inputs and 9 labels",
    MadeWithTooFewClasses: "whose train_labels are 0 to 3, outside 0 to 2 (num_classes - 1)",
    MadeWithClientsThatSkip: "whose owner skips a number",
    MadeWithOneName: "whose owner_names are 1 for 4 clients",
    MadeWithNaN: "whose test_inputs hold NaN or an infinite number in sample 0",
    MadeOfTokensAlone: "whose inputs are tokens; give vocabulary_size",
    MadeWithOtherTestShapes: "whose test_inputs are of shape (2,) each, and train_inputs of (3,)",
}
