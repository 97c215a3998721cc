"""Partitions that break their contract, each in one way."""

# ruff: noqa: NPY002 - these plug-ins do what fleetsim itself must not

from __future__ import annotations

import numpy as np


class Shuffled:
    """A partition that keeps the contract."""

    def split(self, labels, num_clients, generator):
        return np.array_split(generator.permutation(len(labels)), num_clients)


class SplitsForTen(Shuffled):
    def split(self, labels, num_clients, generator):
        return super().split(labels, 10, generator)


class LeavesOneEmpty(Shuffled):
    def split(self, labels, num_clients, generator):
        return [*super().split(labels, num_clients, generator)[:-1], np.zeros(0, dtype=int)]


class SharesSamples(Shuffled):
    def split(self, labels, num_clients, generator):
        return [np.arange(10)] * num_clients


class DrawsWithReplacement(Shuffled):
    def split(self, labels, num_clients, generator):
        return [np.zeros(2, dtype=int) + client for client in range(num_clients)]


class ReturnsMasks(Shuffled):
    def split(self, labels, num_clients, generator):
        return [np.arange(len(labels)) % num_clients == k for k in range(num_clients)]


class CountsFromOne(Shuffled):
    def split(self, labels, num_clients, generator):
        return np.array_split(1 + np.arange(len(labels)), num_clients)


class YieldsThem(Shuffled):
    def split(self, labels, num_clients, generator):
        yield from super().split(labels, num_clients, generator)


class ShufflesTheLabels(Shuffled):
    def split(self, labels, num_clients, generator):
        generator.shuffle(labels)
        return np.array_split(np.arange(len(labels)), num_clients)


class DrawsFromNumpy(Shuffled):
    def split(self, labels, num_clients, generator):
        return np.array_split(np.random.permutation(len(labels)), num_clients)


class DrawsUnseeded(Shuffled):
    def split(self, labels, num_clients, generator):
        return super().split(labels, num_clients, np.random.default_rng())


class SharesItsCount(Shuffled):
    runs: list[int] = []  # noqa: RUF012

    def split(self, labels, num_clients, generator):
        self.runs.append(1)
        return np.array_split(np.roll(np.arange(len(labels)), len(self.runs)), num_clients)


class Fails(Shuffled):
    def split(self, labels, num_clients, generator):
        return labels["first"]


class TakesOwners(Shuffled):
    def split(self, labels, owners, num_clients, generator):  # type: ignore[override]
        return super().split(labels, num_clients, generator)


BROKEN = {
    SplitsForTen: "split returned 10 arrays for 8 clients",
    LeavesOneEmpty: "split returned no sample for client 7; every client needs one",
    SharesSamples: "split returned sample 0 for clients 0 and 1",
    DrawsWithReplacement: "split returned a sample twice for client 0",
    ReturnsMasks: "split returned bool of shape (240,) for client 0, not indices [n]",
    CountsFromOne: "split returned sample 240 for client 7; there are 0 to 239",
    YieldsThem: "split returned 'generator', not a list of arrays, one for each client",
    ShufflesTheLabels: "split changes labels; work on a copy",
    DrawsFromNumpy: "split draws from or seeds the global generator of numpy",
    DrawsUnseeded: "split gives two results with equal draws",
    SharesItsCount: "split gives two results with equal draws",
    Fails: "split fails: IndexError: only integers, slices",
    TakesOwners: "cannot be called as split(labels, num_clients, generator); docs/plugins.md",
}
GOOD = [Shuffled]
KIND = "partition"
