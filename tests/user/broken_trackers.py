"""Trackers that break their contract, each in one way."""

# ruff: noqa: NPY002 - these plug-ins do what fleetsim itself must not

import numpy as np

from tests.user.variants import variants


class Lines:
    """A tracker that keeps the contract."""

    def __init__(self):
        self.lines = []

    def begin(self, run):
        self.lines = [f"{run.name} {run.num_rounds}"]

    def round(self, row):
        self.lines.append(f"{row.round} {row.accuracy}")

    def end(self, run):
        self.lines.append(run.status)


class HasNoEnd:
    begin, round = Lines.begin, Lines.round


class WritesIntoTheFolder(Lines):
    def round(self, row):
        (self.folder / "log.txt").write_text("here")

    def begin(self, run):
        self.folder = run.folder


class KnowsNewRunsAlone(Lines):
    def begin(self, run):
        assert run.num_rounds == 0, "begins in the middle"


class FollowsOneRun(Lines):
    def begin(self, run):
        if self.lines:
            raise RuntimeError("already open")
        super().begin(run)


KIND = "tracker"
GOOD = (Lines,)
BROKEN = {
    HasNoEnd: "is no tracker, it lacks end",
    WritesIntoTheFolder: "round writes log.txt into the run folder",
    KnowsNewRunsAlone: "begin fails: AssertionError: begins in the middle",
    FollowsOneRun: "begin fails: RuntimeError: already open",
} | variants(
    Lines,
    {
        "WantsMore": ("cannot be called as round(row)", {"round": lambda self, row, step: None}),
        "FormatsWhatMayBeNone": ("round fails: TypeError",
            {"round": lambda self, row: self.lines.append(f"{row.accuracy:.3f}")}),
        "ChangesTheScenario": ("begin changes what it is told",
            {"begin": lambda self, run: run.scenario["server"].pop("cohort")}),
        "DrawsGlobally": ("begin draws from or seeds the global generator of numpy",
            {"begin": lambda self, run: np.random.random(3)}),
        "WantsADigest": ("end fails: TypeError",
            {"end": lambda self, run: self.lines.append(run.digest[:8])}),
    },
)  # fmt: skip
