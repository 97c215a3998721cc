"""Selectors that break their contract, each in one way."""

# ruff: noqa: TID251, NPY002 - these plug-ins do what fleetsim itself must not

import numpy as np

from fleetsim.contracts import Cohort, ProbeRequest, Work, WorkKind
from tests.user.variants import variants


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


class SeedsNumpy(LeastAsked):
    def setup(self, fleet):
        np.random.seed(fleet.seed)
        return super().setup(fleet)


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


class ChangesALaterView(LeastAsked):
    needs_probes = True

    def probe(self, view):
        if view.stage < 3:
            return [ProbeRequest(view.stage, Work(WorkKind.EVALUATE))]
        view.candidates[0] += 1
        return ()


class WeighsBelowZero(LeastAsked):
    def select(self, view):
        chosen = super().select(view)
        return Cohort(chosen, weights=np.full(chosen.size, -1.0))


class HasNoObserve:
    needs_losses = needs_probes = False
    setup, probe, select = LeastAsked.setup, LeastAsked.probe, LeastAsked.select
    state, restore = LeastAsked.state, LeastAsked.restore


def selects(choose):
    return {"select": lambda self, view: choose(view.candidates, view.wanted)}


BROKEN = {
    SeedsNumpy: "setup draws from or seeds the global generator of numpy; draw from",
    DrawsInSequence: "select gives another answer in round 4 after a restart; restore(state())",
    SharesItsCounts: "select gives two answers in round 1 to equal views",
    SortsTheView: "select changes the view; work on a copy",
    ChangesALaterView: "probe changes the view; work on a copy",
    WeighsBelowZero: "select must give 5 finite numbers above 0 as weights, got",
    HasNoObserve: "is no selector, it lacks observe; `fleetsim docs own-selectors`",
} | variants(
    LeastAsked,
    {
        "DrawsFromNumpy": ("select draws from or seeds the global generator of numpy; draw from",
            selects(lambda candidates, num: np.random.permutation(candidates)[:num])),
        "DrawsWhenMade": ("making it draws from or seeds the global generator of numpy",
            {"__init__": lambda self: self.__dict__.update(first=np.random.random())}),
        "DrawsUnseeded": (
            "select gives two answers in round 1 to equal views; draw from fleetsim.rng",
            selects(lambda candidates, num: np.random.default_rng().permutation(candidates)[:num]),
        ),
        "MarksTheOutcome": ("observe changes the outcome; work on a copy",
            {"observe": lambda self, outcome: outcome.selected.fill(0)}),
        "TakesTooMany": ("select must return at most 5 distinct clients of view.candidates, got",
            selects(lambda candidates, _: candidates)),
        "ReturnsAMask": ("select must return at most 5 distinct clients of view.candidates, got",
            selects(lambda candidates, _: candidates < 5)),
        "ProbesByNumber": ("probe must return a sequence of ProbeRequests, () for none, got [3]",
            {"probe": lambda self, view: [3]}),
        "ForgetsItsCounts": ("select gives another answer in round 4 after a restart",
            {"restore": lambda self, state: None}),
        "SavesAList": ("state must return a dict of arrays without objects, by name, got",
            {"state": lambda self: {"asked": self.asked.tolist()}}),
        "SaysNoNumber": ("diagnostics must return finite numbers, or lists of them, by names",
            {"diagnostics": lambda self: {"loss": "high"}}),
        "Fails": ("observe fails: KeyError: 1 (",
            {"observe": lambda self, outcome: {}[outcome.round]}),
        "AsksUnsaid": ("asks clients before it selects; say so with needs_probes = True",
            {"setup": lambda self, fleet: [
                *LeastAsked.setup(self, fleet), ProbeRequest(0, Work(WorkKind.EVALUATE))]}),
        "SaysNoNeeds": ("needs_losses must be True or False, not None", {"needs_losses": None}),
        "TakesTheRound": ("cannot be called as select(view); `fleetsim docs own-selectors`",
            {"select": lambda self, view, round_: view.candidates[: view.wanted]}),
    },
)  # fmt: skip
GOOD = [LeastAsked]
KIND = "selector"
