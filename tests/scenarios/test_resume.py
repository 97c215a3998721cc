"""Equality of runs that are repeated, interrupted, killed and resumed."""

import itertools
import sys

import pytest

from fleetsim.contracts import Progress
from fleetsim.scenario import load
from fleetsim.simulate import run
from tests.scenarios import kills

CASES: dict[str, tuple[str, list[str]]] = {
    "quickstart": ("quickstart", ["server.cohort=4"]),
    "quickstart-fedbuff": (
        "quickstart-fedbuff", ["server.concurrency=6", "server.buffer_size=3", kills.HEAT]),
    "interruptions": (
        "interruptions", [*kills.PARTIAL, "server.cohort=4", "task.local.batch_size=8"]),
    "interruptions-fedbuff": ("interruptions", [*kills.PAUSE]),
}  # fmt: skip
SMALL = ["fleet.size=24", "server.selector.kind=oort", "checkpoint.every_rounds=2"]
LONG = [*SMALL, "stop.rounds=10", "task.local.epochs=8"]
SHORT = [*SMALL, "stop.rounds=7", "task.local.epochs=2"]
BY_STEPS = [
    "fleet.size=12", "server.concurrency=4", "server.buffer_size=2", "stop.rounds=7",
    "task.model.hidden=[12, 8]", "task.local.epochs=null", "task.local.steps=11",
    "checkpoint.every_rounds=1",
]  # fmt: skip
DESERT = ["fleet.size=16", "server.cohort=4", "stop.rounds=7", "checkpoint.every_rounds=3"]
LIVE = [
    "fleet.size=12", "fleet.usage={trace: people-week, starts_at_s: 25200}", kills.BATTERY,
    "task.local.epochs=40", "task.partition.min_samples=2", "server.concurrency=4",
    "server.buffer_size=2", "stop.rounds=7", "checkpoint.every_rounds=3",
]  # fmt: skip


def interrupt(progress: Progress) -> None:
    if progress.round == 4:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "changes", "train"),
    [
        *((name, [*changes, *SHORT], True) for name, changes in CASES.values()),
        ("quickstart-fedbuff", BY_STEPS, True),
        ("battery-desert", DESERT, False),
        ("quickstart-fedbuff", LIVE, False),
    ],
    ids=[*CASES, "by-steps", "live", "live-fedbuff"],
)
def test_an_interrupted_run_goes_on_to_the_same_bytes(name, changes, train, tmp_path):
    scenario = load(name, changes)
    whole = run(scenario, out=tmp_path / "whole", train=train, workers=1)
    with pytest.raises(KeyboardInterrupt):
        run(scenario, out=tmp_path / "cut", train=train, workers=1, on_progress=interrupt)
    resumed = run(scenario, out=tmp_path / "cut", train=train, workers=1, resume=True)

    assert resumed.manifest.digest == whole.manifest.digest
    for table in ("rounds", "tasks", "clients"):
        file = f"{table}.parquet"
        assert (resumed.folder / file).read_bytes() == (whole.folder / file).read_bytes()
    if not train:
        assert whole.rounds["battery_median_fraction"].nunique() > 4


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["serial", "stacked"])
def test_any_number_of_processes_changes_no_byte(name, kind, tmp_path):
    scenario, changes = CASES[name]
    loaded = load(scenario, [*changes, *LONG, f"trainer.kind={kind}"])
    digests = {
        run(loaded, out=tmp_path / str(workers), workers=workers).manifest.digest
        for workers in (1, 3)
    }

    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.one_in(8)
@pytest.mark.parametrize("kind", kills.KINDS)
def test_a_run_killed_at_random_moments_and_resumed_gives_the_same_bytes(kind, tmp_path):
    """One run of each kind; `python -m tests.scenarios.kills` has as many as one likes."""
    expected = kills.undisturbed(kind, tmp_path / "undisturbed")
    for number in itertools.count():
        result = kills.killed(kind, number, tmp_path / f"run-{number}")

        assert result.digests == expected
        if result.kills:
            break
        assert number < 3, "every run had ended before it was killed; make the run longer"
