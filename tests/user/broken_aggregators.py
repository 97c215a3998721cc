"""Aggregators that break their contract, each in one way."""

# ruff: noqa: NPY002 - these plug-ins do what fleetsim itself must not

import time

import numpy as np

from tests.user.variants import variants


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


class ChangesTheModel(Mean):
    def aggregate(self, base, reports):
        base += 0.1
        return base


class ClipsTheReports(Mean):
    def aggregate(self, base, reports):
        for report in reports:
            np.clip(report.vector, -0.1, 0.1, out=report.vector)
        return super().aggregate(base, reports)


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


class CannotRestore(Momentum):
    def restore(self, state):
        self.change = state["velocity"]


class SumsOfClipped(Mean):
    """Clips updates that are far longer than those of a first round, as a robust rule may."""

    sees_single_updates = False

    def aggregate(self, base, reports):
        changes = [report.vector - base for report in reports]
        lengths = [max(1.0, float(np.linalg.norm(change)) / 50.0) for change in changes]
        return base + np.mean([c / n for c, n in zip(changes, lengths, strict=True)], axis=0)


class SumsOfSamples(Mean):
    """Weighted mean, which says that it needs sums alone."""

    sees_single_updates = False

    def aggregate(self, base, reports):
        weights = np.array([report.num_samples for report in reports], dtype=np.float64)
        return weights @ np.array([report.vector for report in reports]) / weights.sum()


class SumsWithMomentum(Momentum):
    sees_single_updates = False


def of_mean(change):
    return {"aggregate": lambda self, base, reports: change(Mean.aggregate(self, base, reports))}


def of_vectors(combine, **attributes):
    own = {"aggregate": lambda self, base, reports: combine([one.vector for one in reports])}
    return own | attributes


BROKEN = (
    {
        SumsOfClipped: "says sees_single_updates = False, and aggregate gives another model",
        ChangesTheModel: "aggregate changes base; work on a copy",
        ClipsTheReports: "aggregate changes a report; work on a copy",
        SharesItsChange: "aggregate gives two results for version 1 from equal reports",
        KeepsWithoutState: "it keeps something between calls, and has no state and restore",
        CannotRestore: "restore fails: KeyError: 'velocity' (",
    }
    | variants(
        Mean,
        {
            # It counts on every client's report.
            "SumsOfSeven": ("aggregate fails: IndexError: list index out of range",
                of_vectors(lambda all_: sum(all_[k] for k in range(7)) / np.float32(7),
                    sees_single_updates=False)),
            "SaysNo": ("sees_single_updates must be True or False, not 'no'",
                {"sees_single_updates": "no"}),
            "ReturnsAList": ("aggregate returned list, not a numpy array",
                of_mean(lambda mean: mean.tolist())),
            "DividesByZero": ("aggregate returned numbers that are not finite, from finite models",
                of_mean(lambda mean: mean * np.inf)),
            "DrawsFromNumpy": ("aggregate draws from or seeds the global generator of numpy",
                of_mean(lambda mean: mean + np.random.normal(size=mean.size))),
            # The second: in float32 the time since the start of the machine changes too slowly.
            "ReadsTheClock": ("aggregate gives two results for version 1 from equal reports",
                of_mean(lambda mean: mean * (1.0 + time.perf_counter() % 1.0))),
            "HasNoRestore": ("is no aggregator, it lacks restore; `fleetsim docs plugins`",
                {"state": lambda self: {}}),
            "TakesWeights": (
                "cannot be called as aggregate(base, reports); `fleetsim docs plugins`",
                {"aggregate": lambda self, base, reports, weights: base},
            ),
        },
    )
    | variants(
        Momentum,
        {
            "RestoresNothing": (
                "aggregate gives another version 3 after a restart; it is not continued by",
                {"restore": lambda self, state: None},
            ),
            "SavesANumber": ("state returned float as 'change', not a numpy array",
                {"state": lambda self: {"change": 0.5}}),
            "SavesATuple": ("state returned tuple, not a dict of arrays by name",
                {"state": lambda self: (self.change,)}),
        },
    )
)  # fmt: skip
GOOD = [Mean, Momentum, SumsOfSamples, SumsWithMomentum]
KIND = "aggregator"
