"""Equality of runs that are repeated, killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fleetsim.record.saved_run import open_run
from fleetsim.scenario import load
from fleetsim.simulate import run

SMALL = {
    "quickstart": ["server.cohort=4"],
    "quickstart-fedbuff": [
        "server.concurrency=6",
        "server.buffer_size=3",
        "fleet.thermal={kind: skin, time_constant_s: 0.2, ambient_c: 35}",
    ],
    "interruptions": [
        "server.interruption={kind: partial, weight: processed}",
        "server.cohort=4",
        "task.local.batch_size=8",
    ],
    "interruptions-fedbuff": [
        "server={mode: buffered, concurrency: 6, buffer_size: 3}",
        "server.interruption={kind: pause, max_pause_s: 300, resume_s: 1, transfers: restart}",
    ],
}
for changes in SMALL.values():
    changes += [
        "fleet.size=24",
        "stop.rounds=40",
        "task.local.epochs=8",
        "server.selector.kind=oort",
        "checkpoint.every_rounds=2",
        "task.partition.min_samples=2",
    ]
SCENARIOS = {name: name for name in SMALL} | {"interruptions-fedbuff": "interruptions"}
NUM_KILLS = int(os.environ.get("FLEETSIM_KILLS", "4"))


def command(name, out, workers) -> list[str]:
    sets = [part for change in SMALL[name] for part in ("--set", change)]
    program = [sys.executable, "-m", "fleetsim.cli", "run", SCENARIOS[name]]
    return [*program, "--out", str(out), "--workers", str(workers), *sets]


@pytest.fixture(scope="module", params=SMALL)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def reference(name, tmp_path_factory):
    scenario = load(SCENARIOS[name], SMALL[name])
    return run(scenario, out=tmp_path_factory.mktemp("reference") / "run", workers=1)


def test_the_same_scenario_gives_the_same_bytes_again(name, reference, tmp_path):
    again = run(load(SCENARIOS[name], SMALL[name]), out=tmp_path / "run")

    assert again.manifest.digest == reference.manifest.digest
    for table in ("rounds", "tasks", "clients"):
        name = f"{table}.parquet"
        assert (again.folder / name).read_bytes() == (reference.folder / name).read_bytes()


@pytest.mark.parametrize("kind", ["serial", "stacked"])
def test_the_number_of_processes_that_train_changes_no_byte(name, kind, tmp_path):
    scenario = load(SCENARIOS[name], [*SMALL[name], "stop.rounds=10", f"trainer.kind={kind}"])
    digests = {
        run(scenario, out=tmp_path / str(workers), workers=workers).manifest.digest
        for workers in (1, 2, 4)
    }

    assert len(digests) == 1


def test_another_seed_gives_another_run(name, reference, tmp_path):
    other = run(load(SCENARIOS[name], SMALL[name], seed=2), out=tmp_path / "run")

    assert other.manifest.digest != reference.manifest.digest
    assert other.manifest.world_hash != reference.manifest.world_hash


def num_rounds_saved(out) -> int:
    """Rounds in the newest checkpoint: 0 of a run that has begun, -1 of one that has not."""
    newest = out / "checkpoint" / "latest.json"
    if newest.exists():
        state = json.loads(newest.read_text())["state"]["file"]
        return int(state.removeprefix("state-").removesuffix(".npz"))
    return 0 if (out / "manifest.json").exists() else -1


@pytest.mark.slow
def test_a_run_killed_at_random_moments_and_resumed_gives_the_same_bytes(name, reference, tmp_path):
    """For any number of processes that train before and after."""
    moments = np.random.default_rng()
    num_cut = 0
    for kill in range(NUM_KILLS):
        out = tmp_path / f"run-{kill}"
        process = subprocess.Popen(command(name, out, 1 + kill % 3), stdout=subprocess.DEVNULL)
        if kill % 4 == 3:
            # Before there is a folder, while it is made, or soon after.
            time.sleep(float(moments.uniform(0.0, 4.0)))
        else:
            # A round is drawn, not a second: how long a run lasts depends on the machine.
            after_round = 0 if kill == 0 else int(moments.integers(2, 37))
            while process.poll() is None and num_rounds_saved(out) < after_round:
                time.sleep(0.001)
            time.sleep(float(moments.uniform(0.0, 0.1)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        num_cut += (out / "manifest.json").exists() and open_run(out).manifest.status == "running"

        resumed = subprocess.run(
            [*command(name, out, 1 + (kill + 1) % 3), "--resume"],
            capture_output=True,
            text=True,
            check=False,
        )

        assert resumed.returncode == 0, resumed.stderr
        assert open_run(out).manifest.digest == reference.manifest.digest
    assert num_cut > 0, "every run had ended before it was killed; make the run longer"
