"""Selectors that break their contract, each in one way."""

# ruff: noqa: TID251, NPY002 - these plug-ins do what fleetsim itself must not

from __future__ import annotations

import random

import numpy as np
import torch

from fleetsim.contracts import Cohort


class LeastAsked:
    """A selector that keeps the contract: the candidates selected least often."""

    needs_losses = needs_probes = False

    def setup(self, fleet):
        self.asked = np.zeros(fleet.num_samples.size, dtype=np.int64)
        return ()

    def probe(self, view):
        return ()

    def select(self, view):
        order = self.asked[view.candidates].argsort(kind="stable")
        return view.candidates[order][: view.wanted]

    def observe(self, outcome):
        self.asked[outcome.selected] += 1

    def state(self):
        return {"asked": self.asked.copy()}

    def restore(self, state):
        self.asked = state["asked"].copy()


class DrawsFromNumpy(LeastAsked):
    def select(self, view):
        return np.random.permutation(view.candidates)[: view.wanted]


class DrawsFromRandom(LeastAsked):
    def select(self, view):
        return np.array(random.sample(view.candidates.tolist(), view.wanted))


class DrawsFromTorch(LeastAsked):
    def observe(self, outcome):
        self.noise = torch.rand(1)


class SeedsNumpy(LeastAsked):
    def setup(self, fleet):
        np.random.seed(fleet.seed)
        return super().setup(fleet)


class DrawsWhenMade(LeastAsked):
    def __init__(self):
        self.first = np.random.random()


class DrawsUnseeded(LeastAsked):
    def select(self, view):
        return np.random.default_rng().permutation(view.candidates)[: view.wanted]


class DrawsInSequence(LeastAsked):
    """Its generator does not survive a restart."""

    def setup(self, fleet):
        self.draws = np.random.default_rng(fleet.seed)
        return super().setup(fleet)

    def select(self, view):
        return self.draws.permutation(view.candidates)[: view.wanted]


class SharesItsCounts(LeastAsked):
    """Its counts belong to the class, so the next run goes on with them."""

    shared = np.zeros(20, dtype=np.int64)

    def setup(self, fleet):
        self.asked = self.shared
        return ()


class SortsTheView(LeastAsked):
    def select(self, view):
        view.num_samples.sort()
        return super().select(view)


class MarksTheOutcome(LeastAsked):
    def observe(self, outcome):
        outcome.selected[:] = 0


class TakesTooMany(LeastAsked):
    def select(self, view):
        return view.candidates


class TakesTheAbsent(LeastAsked):
    def select(self, view):
        return np.setdiff1d(np.arange(20), view.candidates)[:1]


class TakesOneTwice(LeastAsked):
    def select(self, view):
        return view.candidates[[0, 0]]


class ReturnsAMask(LeastAsked):
    def select(self, view):
        return view.candidates < 5


class ReturnsNothing(LeastAsked):
    def select(self, view):
        pass


class WeighsBelowZero(LeastAsked):
    def select(self, view):
        chosen = super().select(view)
        return Cohort(chosen, weights=np.full(chosen.size, -1.0))


class ProbesByNumber(LeastAsked):
    def probe(self, view):
        return [3]


class ForgetsItsCounts(LeastAsked):
    def restore(self, state):
        pass


class SavesAList(LeastAsked):
    def state(self):
        return {"asked": self.asked.tolist()}


class SavesObjects(LeastAsked):
    def state(self):
        return {"asked": np.array([{}, None])}


class Fails(LeastAsked):
    def observe(self, outcome):
        raise KeyError(outcome.round)


class SaysNoNeeds(LeastAsked):
    needs_losses = None  # type: ignore[assignment]


class TakesTheRound(LeastAsked):
    def select(self, view, round_):  # type: ignore[override]
        return view.candidates[: view.wanted]


class HasNoObserve:
    needs_losses = needs_probes = False
    setup, probe, select = LeastAsked.setup, LeastAsked.probe, LeastAsked.select
    state, restore = LeastAsked.state, LeastAsked.restore


BROKEN = {
    DrawsFromNumpy: "select draws from or seeds the global generator of numpy; draw from",
    DrawsFromRandom: "select draws from or seeds the global generator of random; draw from",
    DrawsFromTorch: "observe draws from or seeds the global generator of torch; draw from",
    SeedsNumpy: "setup draws from or seeds the global generator of numpy; draw from",
    DrawsWhenMade: "making it draws from or seeds the global generator of numpy",
    DrawsUnseeded: "select gives two answers in round 1 to equal views; draw from fleetsim.rng",
    DrawsInSequence: "select gives another answer in round 4 after a restart; restore(state())",
    SharesItsCounts: "select gives two answers in round 1 to equal views",
    SortsTheView: "select changes the view; work on a copy",
    MarksTheOutcome: "observe changes the outcome; work on a copy",
    TakesTooMany: "select returned 16 clients, and view.wanted is 5",
    TakesTheAbsent: "which is not in view.candidates",
    TakesOneTwice: "select returned a client twice",
    ReturnsAMask: "select must return numbers of clients [n] or a Cohort, not",
    ReturnsNothing: "select must return numbers of clients [n] or a Cohort, not None",
    WeighsBelowZero: "select must give 5 finite numbers above 0 as weights, got",
    ProbesByNumber: "probe must return a sequence of ProbeRequests, () for none, not [3]",
    ForgetsItsCounts: "select gives another answer in round 4 after a restart",
    SavesAList: "state returned 'list' as 'asked', not a numpy array",
    SavesObjects: "state returned 'ndarray' as 'asked', not a numpy array",
    Fails: "observe fails: KeyError: 1 (",
    SaysNoNeeds: "needs_losses must be True or False, not None",
    TakesTheRound: "cannot be called as select(view); docs/selectors.md has an example",
    HasNoObserve: "is no selector, it lacks observe; docs/selectors.md has an example",
}
GOOD = [LeastAsked]
KIND = "selector"
