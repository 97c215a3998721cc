"""Aggregators that break their contract, each in one way."""

# ruff: noqa: NPY002 - these plug-ins do what fleetsim itself must not

from __future__ import annotations

import time

import numpy as np


class Mean:
    """An aggregator that keeps the contract and nothing between calls."""

    def aggregate(self, base, reports):
        return np.mean([report.vector for report in reports], axis=0)


class Momentum(Mean):
    """An aggregator that keeps the contract and its last change."""

    def __init__(self):
        self.change = np.zeros(1)

    def aggregate(self, base, reports):
        self.change = 0.5 * self.change + super().aggregate(base, reports) - base
        return base + self.change

    def state(self):
        return {"change": self.change}

    def restore(self, state):
        self.change = state["change"]


class ReturnsAList(Mean):
    def aggregate(self, base, reports):
        return super().aggregate(base, reports).tolist()


class ReturnsNothing(Mean):
    def aggregate(self, base, reports):
        super().aggregate(base, reports)


class ReturnsAMatrix(Mean):
    def aggregate(self, base, reports):
        return np.stack([report.vector for report in reports])


class ReturnsWholeNumbers(Mean):
    def aggregate(self, base, reports):
        return super().aggregate(base, reports).round().astype(int)


class DividesByZero(Mean):
    def aggregate(self, base, reports):
        return base * np.inf


class ChangesTheModel(Mean):
    def aggregate(self, base, reports):
        base += 0.1
        return base


class ClipsTheReports(Mean):
    def aggregate(self, base, reports):
        for report in reports:
            np.clip(report.vector, -0.1, 0.1, out=report.vector)
        return super().aggregate(base, reports)


class DrawsFromNumpy(Mean):
    def aggregate(self, base, reports):
        return super().aggregate(base, reports) + np.random.normal(size=base.size)


class DrawsUnseeded(Mean):
    def aggregate(self, base, reports):
        return super().aggregate(base, reports) + np.random.default_rng().normal(size=base.size)


class ReadsTheClock(Mean):
    def aggregate(self, base, reports):
        # The second: in float32 the whole time since the start of the machine changes too slowly.
        return super().aggregate(base, reports) * (1.0 + time.perf_counter() % 1.0)


class SharesItsChange(Momentum):
    """Its list belongs to the class, so the next run goes on with it."""

    changes: list[float] = []  # noqa: RUF012

    def aggregate(self, base, reports):
        self.changes.append(0.1)
        return base + np.float32(sum(self.changes))


class KeepsWithoutState(Mean):
    asked = 0

    def aggregate(self, base, reports):
        self.asked += 1
        return super().aggregate(base, reports) / self.asked


class RestoresNothing(Momentum):
    def restore(self, state):
        pass


class CannotRestore(Momentum):
    def restore(self, state):
        self.change = state["velocity"]


class HasNoRestore(Mean):
    def state(self):
        return {}


class SavesANumber(Momentum):
    def state(self):
        return {"change": 0.5}


class SavesATuple(Momentum):
    def state(self):
        return (self.change,)


class TakesWeights(Mean):
    def aggregate(self, base, reports, weights):  # type: ignore[override]
        return base


class SumsOfMedians(Mean):
    sees_single_updates = False

    def aggregate(self, base, reports):
        return np.median([report.vector for report in reports], axis=0)


class SumsOfClipped(Mean):
    """Clips updates that are far longer than those of a first round, as a robust rule may."""

    sees_single_updates = False

    def aggregate(self, base, reports):
        changes = [report.vector - base for report in reports]
        lengths = [max(1.0, float(np.linalg.norm(change)) / 50.0) for change in changes]
        return base + np.mean([c / n for c, n in zip(changes, lengths, strict=True)], axis=0)


class SumsOfSeven(Mean):
    """Mean that counts on every client's report."""

    sees_single_updates = False

    def aggregate(self, base, reports):
        return sum(reports[k].vector for k in range(7)) / np.float32(7)


class SaysNo(Mean):
    sees_single_updates = "no"


class SumsOfSamples(Mean):
    """Weighted mean, which says that it needs sums alone."""

    sees_single_updates = False

    def aggregate(self, base, reports):
        weights = np.array([report.num_samples for report in reports], dtype=np.float64)
        return weights @ np.array([report.vector for report in reports]) / weights.sum()


class SumsWithMomentum(Momentum):
    sees_single_updates = False


BROKEN = {
    SumsOfMedians: "says sees_single_updates = False, and aggregate gives another model",
    SumsOfClipped: "says sees_single_updates = False, and aggregate gives another model",
    SumsOfSeven: "aggregate fails: IndexError: list index out of range",
    SaysNo: "sees_single_updates must be True or False, not 'no'",
    ReturnsAList: "aggregate returned 'list', not a numpy array",
    ReturnsNothing: "aggregate returned 'NoneType', not a numpy array",
    ReturnsAMatrix: "aggregate returned an array of shape (7, 6) for a model of (6,)",
    ReturnsWholeNumbers: "aggregate returned an array of int64, not of float32 or float64",
    DividesByZero: "aggregate returned numbers that are not finite, from finite models",
    ChangesTheModel: "aggregate changes base; work on a copy",
    ClipsTheReports: "aggregate changes a report; work on a copy",
    DrawsFromNumpy: "aggregate draws from or seeds the global generator of numpy",
    DrawsUnseeded: "aggregate gives two results for version 1 from equal reports",
    ReadsTheClock: "aggregate gives two results for version 1 from equal reports",
    SharesItsChange: "aggregate gives two results for version 1 from equal reports",
    KeepsWithoutState: "it keeps something between calls, and has no state and restore",
    RestoresNothing: "aggregate gives another version 3 after a restart; it is not continued by",
    CannotRestore: "restore fails: KeyError: 'velocity' (",
    HasNoRestore: "is no aggregator, it lacks restore; docs/plugins.md has an example",
    SavesANumber: "state returned 'float' as 'change', not a numpy array",
    SavesATuple: "state returned 'tuple', not a dict of arrays by name",
    TakesWeights: "cannot be called as aggregate(base, reports); docs/plugins.md has an example",
}
GOOD = [Mean, Momentum, SumsOfSamples, SumsWithMomentum]
KIND = "aggregator"
