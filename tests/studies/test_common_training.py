"""Training that worlds have in common, computed once."""

import json
import subprocess
import sys
from typing import Any

import pytest

from fleetsim.record.saved_run import open_run
from fleetsim.studies.backends import LocalProcesses
from fleetsim.studies.execution import execute
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from tests.studies.small_studies import Silent

NUM_JOBS = 6 * 5
"""Trainings of a run: six rounds of five clients."""
SHORT = {"overrides": {"task.local.epochs": 5, "stop.rounds": 6}, "seeds": [1]}


def manifests_of(store: Any, study: Any) -> list[Any]:
    return [store.open(planned).manifest for planned in study.runs]


@pytest.mark.slow
def test_two_studies_at_once_train_once_and_have_the_bytes_of_separate_runs(tmp_path):
    study: Any = load_study("eight-worlds", SHORT)
    separate = RunStore(tmp_path, caches_results=False)
    assert not execute(study, separate, LocalProcesses(2), Silent()).failures
    worlds = list(study.settings.vary["world"].items())
    store, begun = RunStore(tmp_path / "shared"), []
    for name, half in (("even", dict(worlds[::2])), ("odd", dict(worlds[1::2]))):
        changes = SHORT | {"name": name, "vary": {"world": half}, "baseline_level": min(half)}
        options = [f"--set={key}={json.dumps(value)}" for key, value in changes.items()]
        words = ("study", "run", "eight-worlds", *options, f"--home={store.home}", "--workers=1")
        begun.append(subprocess.Popen([sys.executable, "-m", "fleetsim", *words, "--quiet"]))

    assert [process.wait(600) for process in begun] == [0, 0]
    manifests, apart = manifests_of(store, study), manifests_of(separate, study)
    digests = [manifest.digest for manifest in manifests]
    assert digests == [manifest.digest for manifest in apart]
    assert len(set(digests)) == 8  # other seconds or joules in each
    uses = [manifest.results_cache for manifest in manifests]
    assert sum(use.entries_computed for use in uses) == NUM_JOBS
    assert [use.entries_found + use.entries_computed for use in uses] == [NUM_JOBS] * 8
    assert sum(use.rounds_found for use in uses) >= 6 * 6
    assert {use.unit for use in uses} == {"job"}
    assert {manifest.results_cache for manifest in apart} == {None}


@pytest.mark.slow
def test_a_run_is_repeated_in_another_world(tmp_path, command, without_figures, monkeypatch):
    """Two of five clients crash in the second of four rounds, and nobody else."""
    monkeypatch.chdir(tmp_path)
    options = ("--set", "stop.rounds=4", "--no-report", "--quiet")
    crashes = ("--set", "fleet.crash_per_hour=100")
    first = command("run", "digits-scaffold", *options, "--results-cache", "runs/results-cache")
    alone = command("run", "digits-scaffold", *options, *crashes)
    folder, other = first.out.strip(), open_run(alone.out.strip())

    wifi = command("retime", folder, "--set", "fleet.network.kind=wifi", "--json")
    crashed = command("retime", folder, *crashes, "--no-report")
    unnamed = command("retime", folder)

    record = json.loads(wifi.out)
    assert (record["first_other_round"], record["before"]) == (None, folder)
    assert record["results_cache"]["rounds_found"] == record["num_rounds"] == 4
    assert record["digest"] != open_run(folder).manifest.digest
    assert f"choices: those of {folder} before round 2, from which on other" in crashed.out
    assert other.manifest.digest in crashed.out
    # The three that deliver in round 2 have trained the same; rounds 3 and 4 have another model.
    assert "the training of 2 of 4 rounds was found" in crashed.err
    assert (unnamed.code, "name the other world, as --set" in unnamed.err) == (2, True)
