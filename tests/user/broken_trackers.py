"""Trackers that break their contract, each in one way."""

# ruff: noqa: NPY002 - these plug-ins do what fleetsim itself must not

from __future__ import annotations

import numpy as np


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
    def begin(self, run):
        pass

    def round(self, row):
        pass


class WantsMore(Lines):
    def round(self, row, step):  # type: ignore[override]
        pass


class FormatsWhatMayBeNone(Lines):
    def round(self, row):
        self.lines.append(f"{row.accuracy:.3f}")


class ChangesTheScenario(Lines):
    def begin(self, run):
        run.scenario["server"].pop("cohort")


class WritesIntoTheFolder(Lines):
    def round(self, row):
        (self.folder / "log.txt").write_text("here")

    def begin(self, run):
        self.folder = run.folder


class DrawsGlobally(Lines):
    def begin(self, run):
        self.color = np.random.random(3)


class KnowsNewRunsAlone(Lines):
    def begin(self, run):
        assert run.num_rounds == 0, "begins in the middle"


class FollowsOneRun(Lines):
    def begin(self, run):
        if self.lines:
            raise RuntimeError("already open")
        super().begin(run)


class WantsADigest(Lines):
    def end(self, run):
        self.lines.append(run.digest[:8])


KIND = "tracker"
GOOD = (Lines,)
BROKEN = {
    HasNoEnd: "is no tracker, it lacks end",
    WantsMore: "cannot be called as round(row)",
    FormatsWhatMayBeNone: "round fails: TypeError",
    ChangesTheScenario: "begin changes what it is told",
    WritesIntoTheFolder: "round writes log.txt into the run folder",
    DrawsGlobally: "begin draws from or seeds the global generator of numpy",
    KnowsNewRunsAlone: "begin fails: AssertionError: begins in the middle",
    FollowsOneRun: "begin fails: RuntimeError: already open",
    WantsADigest: "end fails: TypeError",
}
