"""Partitions that break their contract, each in one way."""

# ruff: noqa: NPY002 - these plug-ins do what fleetsim itself must not

import numpy as np

from tests.user.variants import variants


class Shuffled:
    """A partition that keeps the contract."""

    def split(self, labels, num_clients, generator):
        return np.array_split(generator.permutation(len(labels)), num_clients)


class LeavesOneEmpty(Shuffled):
    def split(self, labels, num_clients, generator):
        return [*super().split(labels, num_clients, generator)[:-1], np.zeros(0, dtype=int)]


class ShufflesTheLabels(Shuffled):
    def split(self, labels, num_clients, generator):
        generator.shuffle(labels)
        return np.array_split(np.arange(len(labels)), num_clients)


class SharesItsCount(Shuffled):
    runs: list[int] = []  # noqa: RUF012

    def split(self, labels, num_clients, generator):
        self.runs.append(1)
        return np.array_split(np.roll(np.arange(len(labels)), len(self.runs)), num_clients)


def splits(split):
    """Return a method that splits so many samples among so many clients."""
    return {"split": lambda self, labels, num, generator: split(len(labels), num)}


BROKEN = {
    LeavesOneEmpty: "split returned no sample for client 7; every client needs one",
    ShufflesTheLabels: "split changes labels; work on a copy",
    SharesItsCount: "split gives two results with equal draws",
} | variants(
    Shuffled,
    {
        "DrawsFromNumpy": ("split draws from or seeds the global generator of numpy",
            splits(lambda *num: np.array_split(np.random.permutation(num[0]), num[1]))),
        "DrawsUnseeded": ("split gives two results with equal draws",
            splits(lambda *num: np.array_split(np.random.default_rng().permutation(num[0]),
            num[1]))),
        "TakesOwners": (
            "cannot be called as split(labels, num_clients, generator); `fleetsim docs plugins`",
            {"split": lambda self, labels, owners, num, generator: []},
        ),
    },
)  # fmt: skip
GOOD = [Shuffled]
KIND = "partition"
