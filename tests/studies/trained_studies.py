"""Checks of studies whose runs are made in other processes."""

import time
from collections.abc import Callable, Mapping

from fleetsim.record.manifest import read_manifest
from fleetsim.record.saved_run import Run
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import Study

TABLES = ("rounds.parquet", "tasks.parquet", "clients.parquet")
MOST_S = 600.0


def assert_same(study: Study, store: RunStore, alone: Mapping[str, Run]) -> None:
    """Check that the runs in a store are those that were made alone, byte for byte."""
    for planned in study.runs:
        folder, other = store.folder(planned), alone[planned.key].folder
        for name in TABLES:
            assert (folder / name).read_bytes() == (other / name).read_bytes(), name
        here, there = read_manifest(folder), read_manifest(other)
        assert (here.digest, here.platforms) == (there.digest, there.platforms)
        assert here.scenario_hash == there.scenario_hash


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + MOST_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
