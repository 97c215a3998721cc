"""Studies on Dask clusters of real processes, one of which is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleetsim.errors import ScenarioError
from fleetsim.studies.dask_cluster import connect
from fleetsim.studies.execution import execute
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from tests.studies.small_studies import Silent, loaded
from tests.studies.trained_studies import MOST_S, assert_same, wait_for

distributed = pytest.importorskip("distributed", reason="needs fleetsim[dask]")

# Warnings of Dask and tornado are not ours.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def study(trained_file):
    return load_study(trained_file)


class Watches(Silent):
    """Keeps the keys of runs that told progress, and calls back at the first."""

    def __init__(self, at_first=lambda: None) -> None:
        super().__init__()
        self.keys: set[str] = set()
        self._at_first = at_first

    def progress(self, updates):
        is_first = updates and not self.keys
        self.keys |= {each.key for each in updates}
        if is_first:
            self._at_first()


def test_a_killed_worker_of_a_local_cluster_changes_no_byte(study, alone, tmp_path):
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address

        def kill_one() -> None:
            with distributed.Client(address, set_as_default=False) as client:
                processes = client.run(os.getpid)
                assert len(processes) == 2
                os.kill(next(iter(processes.values())), signal.SIGKILL)

        watcher = Watches(kill_one)
        done = execute(study, RunStore(tmp_path), connect(address), watcher)

    assert (done.num_made, done.failures) == (4, {})
    assert watcher.keys == {planned.key for planned in study.runs}
    # The scheduler itself gives the task to another worker.
    assert not [text for kind, text in watcher.events if kind == "repeated"]
    assert_same(study, RunStore(tmp_path), alone)


@pytest.mark.long
def test_a_run_that_takes_too_long_is_ended_with_its_worker_and_the_next_one_begins(tmp_path):
    """The only worker has the endless run first; a nanny begins it anew."""
    endless = {"stop.rounds": 50_000_000, "stop.energy_j": 1e15}
    study = loaded(tmp_path, arms={"endless": endless, "short": {}}, seeds=[1])
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        backend = connect(cluster.scheduler_address)
        done = execute(study, RunStore(tmp_path / "home"), backend, Silent(), timeout_s=40.0)

    (reason,) = done.failures.values()
    assert reason.startswith("took longer than --timeout-s 40 s, and was ended")
    assert done.num_made == 1


@contextmanager
def started(module: str, *arguments: str, **variables: str) -> Iterator[None]:
    """A process of Dask, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    """A scheduler; yields its address."""
    file = folder / "scheduler.json"
    with started(
        "dask_scheduler", "--port", "0", "--dashboard-address", ":0", "--scheduler-file", str(file)
    ):
        # Dask opens the file before it writes the text, which ends with a line of one brace.
        wait_for(lambda: file.exists() and file.read_text("utf-8").endswith("\n}"))
        yield json.loads(file.read_text("utf-8"))["address"]


def wait_for_workers(address: str, number: int) -> None:
    with distributed.Client(address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(number, timeout=MOST_S)


WORKER = ("--nthreads", "1", "--no-nanny", "--no-dashboard")


@pytest.mark.long
def test_an_interrupted_study_leaves_separate_workers_usable(study, alone, tmp_path):
    def interrupt() -> None:
        raise KeyboardInterrupt

    with (
        scheduler(tmp_path) as address,
        started("dask_worker", address, *WORKER),
        started("dask_worker", address, *WORKER),
    ):
        wait_for_workers(address, 2)
        with pytest.raises(KeyboardInterrupt):
            execute(study, RunStore(tmp_path), connect(address), Watches(interrupt))
        with distributed.Client(address, timeout=60, set_as_default=False) as client:
            # Runs under way end after their round, and nothing is left in the queue.
            wait_for(lambda: not any(client.processing().values()))
            executing = client.run(lambda dask_worker: dask_worker.state.executing_count)
            assert len(executing) == 2

        done = execute(study, RunStore(tmp_path), connect(address), Silent())

    assert done.failures == {}
    assert_same(study, RunStore(tmp_path), alone)


def test_a_worker_whose_portable_mode_is_not_in_effect_is_refused(study, tmp_path, monkeypatch):
    monkeypatch.setenv("FLEETSIM_NUMERICS", "fastest")
    with scheduler(tmp_path) as address:
        variables = {"FLEETSIM_NUMERICS": "portable"}
        with started("dask_worker", address, *WORKER, **variables):
            wait_for_workers(address, 1)
            cluster = connect(address)
            try:
                with pytest.raises(Exception, match="FLEETSIM_NUMERICS=portable, and this process"):
                    cluster.look_at_workers()
            finally:
                cluster.close()


def test_a_scheduler_that_does_not_answer_is_one_line():
    began_s = time.monotonic()

    with pytest.raises(ScenarioError, match="no Dask scheduler answers there"):
        connect("tcp://127.0.0.1:9")
    assert time.monotonic() - began_s < 60.0
