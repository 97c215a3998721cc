"""Trackers of the user's own: named on the command line, or given from Python."""

from typing import ClassVar

import pytest

import fleetsim
from tests.trackers.test_following import SMALL, Notes, made


@pytest.mark.slow
def test_a_tracker_of_ones_own_is_a_plug_in_that_affects_no_result(tmp_path, own_module, command):
    """The command names the class, and the manifest has it; the hash is that without it."""
    own_module(
        "class Told:\n"
        "    def begin(self, run):\n        print('begins', run.num_rounds)\n"
        "    def round(self, row):\n        print('round', row.round)\n"
        "    def end(self, run):\n        print(run.status)\n",
        name="told",
    )
    sets = [word for change in SMALL for word in ("--set", change)]
    words = ["run", "quickstart", "--no-train", "--no-report", *sets, "--out", tmp_path / "run"]
    ended = command(*words, "--plugin", "told:Told")
    plain = made(tmp_path / "plain").manifest
    manifest = fleetsim.open_run(tmp_path / "run").manifest

    told = ["begins 0", *(f"round {n}" for n in range(1, 5)), "done"]
    assert [line for line in ended.err.splitlines() if line in told] == told
    assert [(own.kind, own.affects_results) for own in manifest.plugins] == [("tracker", False)]
    assert manifest.scenario_hash == plain.scenario_hash
    assert manifest.digest == plain.digest


def test_python_may_give_a_class_too(tmp_path):
    class Loud(Notes):
        told: ClassVar[list[int]] = []

        def round(self, row):
            self.told.append(row.round)

    made(tmp_path / "run", Loud)

    assert Loud.told == [1, 2, 3, 4]
