"""Chunks of jobs on Dask clusters of real processes, one of which is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetsim.contracts import Job, Work, WorkKind
from fleetsim.errors import DataError, TrainingError
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.stacked.stacked_sgd import StackedKernel
from fleetsim.training import dask_worker
from fleetsim.training.dask_pool import DaskPool, DaskWorkers, connected
from fleetsim.training.dask_worker import misfit, platform_here
from fleetsim.training.worker_pool import Pool
from tests.learning.side_by_side import all_same
from tests.training.test_worker_pool import NUM_TEST, jobs_of, kernel_of

distributed = pytest.importorskip("distributed", reason="needs fleetsim[dask]")

# Warnings of Dask and tornado are not ours.
pytestmark = [pytest.mark.filterwarnings("ignore")]


def local_cluster(num_workers: int) -> Any:
    return distributed.LocalCluster(
        n_workers=num_workers, threads_per_worker=1, processes=True, dashboard_address=None
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with local_cluster(2) as cluster:
        yield cluster.scheduler_address


class Builds:
    """Function that builds a kernel."""

    def __init__(self, kind: type[Kernel], folder: Path = Path()) -> None:
        kernel, self.base = kernel_of(kind)
        self.kind, self.module, self.data = kind, kernel.module, kernel._data
        self.local, self.folder = kernel._local_settings, folder

    def __call__(self) -> Kernel:
        kernel = self.kind(self.module, self.data, local_settings=self.local, seed=7)
        vars(kernel)["folder"] = self.folder
        return kernel


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Kernel, StackedKernel])
def test_workers_of_a_cluster_compute_the_bits_of_one_process(address: str, kind: type[Kernel]):
    builds = Builds(kind)
    alone, base = Pool(kernel_of(kind)[0], 1), builds.base
    with connected(address, (), print) as workers:
        cluster = DaskPool(builds, workers)
        for _ in range(2):
            jobs = jobs_of(base)
            results = alone.compute(jobs)
            assert all_same(results, cluster.compute(jobs))
            vector = results[0].vector
            assert vector is not None
            base = vector
        for part, num in (("test", NUM_TEST), ("validation", 20)):
            mine, theirs = alone.evaluate(base, part), cluster.evaluate(base, part)  # type: ignore[arg-type]
            assert [array.tobytes() for array in mine] == [array.tobytes() for array in theirs]
            assert len(mine[0]) == num

        cluster.begin(jobs)
        with pytest.raises(ValueError, match="other jobs were begun"):
            cluster.compute(jobs[:3])
        assert all_same(alone.compute(jobs), cluster.compute(jobs))


@pytest.mark.slow
def test_samples_and_network_are_sent_once_and_not_again_in_the_next_run(address: str):
    builds = Builds(Kernel)
    base = builds.base
    jobs = [Job(client, Work(WorkKind.TRAIN, epochs=1), base, (5,)) for client in range(7)]
    with connected(address, (), print) as workers:
        pool = DaskPool(builds, workers)
        sent_once = workers.num_byte["data"]
        pool.compute(jobs)
        pool.evaluate(base, "test")
        first = workers.num_byte.copy()
        pool.compute(jobs)
        second = workers.num_byte.copy()
        inputs_of_orders = workers.client.nbytes(summary=False)
    inputs = builds.data.train_inputs, builds.data.test_inputs
    samples = sum(np.asarray(each).nbytes for each in inputs)
    with connected(address, (), print) as workers:
        DaskPool(builds, workers).compute(jobs)
        later = workers.num_byte.copy()

    # To two workers; half as much again is ample for labels, rows, weights and code.
    assert 2 * samples <= sent_once <= 3 * samples
    assert first["data"] == second["data"] == sent_once
    # One model to each worker for three calls, and jobs of less than a kilobyte each.
    assert 2 * base.nbytes <= first["sent"] <= 2 * base.nbytes + 20 * 1000
    assert second["sent"] - first["sent"] < 7 * 1000
    assert second["received"] - first["received"] >= 7 * base.nbytes
    assert later["data"] == 0
    # All copies but one of an input may go, and orders then wait for the worker that has it.
    assert max(inputs_of_orders.values()) < base.nbytes + 1000 < samples


class _Kills(Kernel):
    """Kills its process, as often as `most_kills` says; each leaves a file in `folder`."""

    folder: Path
    most_kills = 1

    def compute(self, jobs):
        number = len(list(self.folder.iterdir()))
        if jobs[0].client == 3 and number < self.most_kills:
            (self.folder / str(number)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().compute(jobs)


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
def test_chunks_of_a_worker_that_is_killed_are_computed_again(num_workers: int, tmp_path: Path):
    """With one worker all that was sent is lost, too, and sent again to the one that follows."""
    builds = Builds(_Kills, tmp_path)
    jobs = jobs_of(builds.base)
    with (
        local_cluster(num_workers) as cluster,
        connected(cluster.scheduler_address, (), print) as workers,
    ):
        results = DaskPool(builds, workers).compute(jobs)

    assert len(list(tmp_path.iterdir())) == 1
    assert all_same(results, Pool(kernel_of(Kernel)[0], 1).compute(jobs))


class _AlwaysKills(_Kills):
    most_kills = 99


@pytest.mark.slow
@pytest.mark.long
def test_jobs_that_kill_workers_again_and_again_end_the_run_in_one_line(tmp_path: Path):
    """Dask gives a task up when the fourth worker has died of it.

    If the second one dies before the first is back, all that was sent is lost, four times at most.
    """
    message = r"^--dask .*(died of the same jobs|were lost 4 times)[^\n]* --resume[^\n]*$"
    builds = Builds(_AlwaysKills, tmp_path)
    with (
        local_cluster(2) as cluster,
        connected(cluster.scheduler_address, (), print) as workers,
        pytest.raises(TrainingError, match=message),
    ):
        DaskPool(builds, workers).compute(jobs_of(builds.base))

    assert 1 < len(list(tmp_path.iterdir())) <= 8


class _Fails(Kernel):
    def compute(self, jobs):
        raise ValueError("no luck")


@pytest.mark.slow
def test_a_fault_on_a_worker_is_told_and_the_cluster_stays_usable(address: str):
    with connected(address, (), print) as workers:
        for builds, message in ((Builds(_Fails), "no luck"), (Builds(Kernel), None)):
            pool = DaskPool(builds, workers)
            if message is None:
                assert len(pool.compute(jobs_of(builds.base))) == 13
                return
            with pytest.raises(TrainingError, match=message):
                pool.compute(jobs_of(builds.base))


def test_another_platform_is_named_with_the_way_out():
    here = platform_here()
    other = {**here, "processor": "GenuineIntel family 6 model 63", "blas": "other"}

    assert misfit({}, here) is None
    message = misfit({}, other)
    assert message is not None
    assert f"blas (other, {here['blas']}), processor (GenuineIntel family 6" in message
    assert "--numerics portable" in message


class FakeClient:
    """Client of one worker, which answers by functions of this process."""

    status = "running"

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    def nthreads(self) -> dict[str, int]:
        return {"tcp://a:1": 1}

    def run(self, function: Any, *arguments: Any, workers: Any, on_error: str = "raise") -> Any:
        return {worker: function(*arguments) for worker in workers}


def test_a_worker_of_another_platform_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
):
    mine = platform_here()
    platforms = iter([mine, {**mine, "processor": "new"}])
    for module in ("dask_pool", "dask_worker"):
        monkeypatch.setattr(f"fleetsim.training.{module}.platform_here", lambda: next(platforms))

    with pytest.raises(DataError, match=r"--dask s: worker tcp://a:1 computes on another .*new"):
        DaskWorkers(FakeClient(), "s", (), print)


def test_a_worker_that_joined_later_refuses_the_recipe_of_another_platform():
    recipe = dask_worker.Recipe({}, {"processor": "another"}, (), b"", [])

    with pytest.raises(DataError, match="a Dask worker computes on another numerical platform"):
        dask_worker.carry_out("name", recipe, "compute", b"", [])
    assert dask_worker.carry_out("name", None, "compute", b"", []) == b""


def test_a_worker_keeps_a_recipe_until_an_order_asks_for_its_kernel(
    monkeypatch: pytest.MonkeyPatch,
):
    recipe = dask_worker.Recipe({}, {"processor": "another"}, (), b"", [])
    monkeypatch.setattr(dask_worker, "_RECIPES", {})
    for name in ("first", "second", "third", "second"):
        dask_worker.keep(name, recipe)

    assert [dask_worker.holds(name) for name in ("first", "second", "third")] == [False, True, True]
    with pytest.raises(DataError, match="another numerical platform"):
        dask_worker.carry_out("third", None, "compute", b"", [])
    assert not dask_worker.holds("third")
