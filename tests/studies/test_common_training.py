"""Training that the worlds of a study have in common, computed once."""

import json
import subprocess
import sys

import pytest

from fleetsim.record.saved_run import open_run
from fleetsim.studies.backends import LocalProcesses
from fleetsim.studies.execution import execute
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from tests.studies.small_studies import Silent

SHORT = {"overrides": {"task.local.epochs": 5, "stop.rounds": 6}, "seeds": [1]}
NUM_JOBS = 6 * 5
"""Trainings of a run: six rounds of five clients."""


def runs_of(study, store):
    return {planned.name: store.open(planned) for planned in study.runs}


def uses_of(runs):
    return [run.manifest.results_cache for run in runs.values()]


@pytest.mark.slow
def test_eight_worlds_train_once_and_have_the_bytes_of_separate_runs(tmp_path):
    study = load_study("eight-worlds", SHORT)
    stores = [RunStore(tmp_path / "a"), RunStore(tmp_path / "b", caches_results=False)]
    for store in stores:
        assert not execute(study, store, LocalProcesses(2), Silent()).failures
    together, separate = (runs_of(study, store) for store in stores)

    assert len(together) == 8
    digests = {name: run.manifest.digest for name, run in together.items()}
    assert digests == {name: run.manifest.digest for name, run in separate.items()}
    assert len(set(digests.values())) == 8  # other seconds or joules in each
    assert sum(use.entries_computed for use in uses_of(together)) == NUM_JOBS
    assert sum(use.rounds_found for use in uses_of(together)) >= 6 * 6
    assert {use.unit for use in uses_of(together)} == {"job"}
    assert uses_of(separate) == [None] * 8


@pytest.mark.slow
def test_two_studies_at_once_share_one_store(tmp_path):
    worlds = load_study("eight-worlds").settings.vary["world"]
    halves = [dict(list(worlds.items())[half::2]) for half in (0, 1)]
    commands, studies = [], []
    for number, half in enumerate(halves):
        changes = SHORT | {"name": f"half-{number}", "vary": {"world": half}}
        changes["baseline_level"] = next(iter(half))
        words = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
        options = [word for each in words for word in ("--set", each)]
        studies.append(load_study("eight-worlds", changes))
        commands.append(
            ["-m", "fleetsim", "study", "run", "eight-worlds", "--home", tmp_path, *options]
        )
    processes = [
        subprocess.Popen([sys.executable, *command, "--workers", "1", "--quiet"])
        for command in commands
    ]

    assert [process.wait(300) for process in processes] == [0, 0]
    store = RunStore(tmp_path)
    uses = [use for study in studies for use in uses_of(runs_of(study, store))]
    assert len(uses) == 8
    assert sum(use.entries_computed for use in uses) == NUM_JOBS
    assert [use.entries_found + use.entries_computed for use in uses] == [NUM_JOBS] * 8


@pytest.mark.slow
def test_a_run_is_repeated_in_another_world(tmp_path, command, without_figures, monkeypatch):
    """Two of five clients crash in the second of four rounds, and nobody else."""
    monkeypatch.chdir(tmp_path)
    options = ("--set", "stop.rounds=4", "--no-report", "--quiet")
    crashes = ("--set", "fleet.crash_per_hour=100")
    first = command("run", "digits-scaffold", *options, "--results-cache", "runs/results-cache")
    alone = command("run", "digits-scaffold", *options, *crashes)
    folder, other = first.out.strip(), open_run(alone.out.strip())

    narrow = command("retime", folder, "--set", "fleet.network.kind=wifi", "--json")
    crashed = command("retime", folder, *crashes, "--no-report")
    computed = command("retime", other.folder, "--set", "fleet.seed=2", "--quiet", "--no-report")
    unnamed = command("retime", folder)

    record = json.loads(narrow.out)
    assert (record["first_other_round"], record["before"]) == (None, folder)
    assert record["results_cache"]["rounds_found"] == record["num_rounds"] == 4
    assert record["digest"] != open_run(folder).manifest.digest
    assert f"choices: those of {folder} before round 2, from which on other" in crashed.out
    assert open_run(folder).first_other_round(other) == 2
    assert other.manifest.digest in crashed.out
    # The three that deliver in round 2 have trained the same; rounds 3 and 4 have another model.
    assert "the training of 2 of 4 rounds was found" in crashed.err
    assert open_run(computed.out.strip()).manifest.results_cache.entries_found == 0
    assert "name the other world, as --set" in unnamed.err
    assert unnamed.code == 2
