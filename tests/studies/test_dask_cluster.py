"""A Dask cluster without Dask: versions, room, lost connections, the missing extra."""

import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host.dask_connection import numerics_refusal, refusal, versions_here
from fleetsim.host.numerics import Numerics
from fleetsim.studies.dask_cluster import DaskCluster, connect
from fleetsim.studies.run_order import RunOrder
from fleetsim.studies.run_process import RunProgress
from tests.studies.small_studies import AtOnce

HERE = {"Python": "3.11", "fleetsim": "0.1.0", "torch": "2.13.0", "distributed": "2026.8.0"}


def order(key: str) -> RunOrder:
    return RunOrder(key, key, scenario="", train=False)


class FakeClient:
    """Client of a cluster whose workers answer as they are told to."""

    def __init__(self, workers: dict[str, dict[str, Any]]) -> None:
        self.id, self.status = "client-1", "running"
        self.workers = workers
        """Versions by worker; an exception is one that is not there."""
        self.num_threads = 1
        self.handler: Any = None
        self.restarted: list[str] = []
        self.restart: Any = "OK"
        """Answer to a restart of a worker, or the exception that it raises."""

    def get_executor(self, *, pure: bool) -> Any:
        assert not pure  # the same order may be given again
        return Waiting()

    def subscribe_topic(self, topic: str, handler: Any) -> None:
        self.handler = handler

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.workers, self.num_threads)

    def restart_workers(self, workers: list[str], *, raise_for_error: bool) -> dict[str, str]:
        assert not raise_for_error
        self.restarted += workers
        if isinstance(self.restart, Exception):
            raise self.restart
        return dict.fromkeys(workers, self.restart)

    def run(self, function: Any, *arguments: str, workers: list[str], on_error: str) -> Any:
        assert on_error == "return"
        name = arguments[0] if arguments else function.__name__
        return {worker: self.workers[worker].get(name) for worker in workers}


class Waiting(AtOnce):
    """Executor whose tasks never begin."""

    def submit(self, task: Any, /, *arguments: Any, **named: Any) -> Any:
        return Future()


def clustered(**workers: dict[str, Any]) -> tuple[DaskCluster, FakeClient]:
    client = FakeClient({f"tcp://{name}:1": versions for name, versions in workers.items()})
    return DaskCluster(client, "tcp://s:8786"), client


def worker(**versions: Any) -> dict[str, Any]:
    """Answers of a worker that is like this process, with other versions."""
    here = {**versions_here(), "chosen": Numerics.FASTEST}
    here["python_version"] = here.pop("Python") + ".9"
    return here | versions


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"Python": "3.11.4", "torch": "2.13.0+cu126"}, None),
        ({"fleetsim": None}, "has no fleetsim; install fleetsim==0.1.0 there"),
        ({"torch": "2.14.0"},
         "has torch 2.14.0, and this process has 2.13.0; install torch==2.13.0 there"),
        ({"Python": "3.13.0"},
         "has Python 3.13.0, and this process has 3.11; install Python 3.11 there"),
    ],
)  # fmt: skip
def test_versions_that_do_not_fit_are_named_with_the_way_out_and_builds_do_not_matter(change, text):
    assert refusal(HERE, {**HERE, **change}) == text


def test_a_worker_of_another_numerical_mode_is_refused():
    fastest, portable = Numerics.FASTEST, Numerics.PORTABLE
    fault = ScenarioError("FLEETSIM_NUMERICS=portable: numpy was loaded before; import it later")

    assert numerics_refusal(fastest, fastest, None) is None
    assert "FLEETSIM_NUMERICS=portable, and this process with fastest" in str(
        numerics_refusal(fastest, portable, None)
    )
    assert str(fault) in str(numerics_refusal(portable, portable, fault))


def test_a_worker_with_other_versions_is_named_before_any_run():
    cluster, _ = clustered(a=worker(), b=worker(fleetsim=ModuleNotFoundError("no")))

    with pytest.raises(DataError, match=r"--dask tcp://s:8786: worker tcp://b:1 has no fleetsim;"):
        cluster.look_at_workers()


def test_threads_and_missing_workers_are_told():
    cluster, client = clustered()

    assert "no workers yet" in cluster.look_at_workers()[0]
    client.workers = {"tcp://a:1": worker()}
    assert cluster.look_at_workers() == []
    client.num_threads = 8
    assert "--nthreads 1" in cluster.look_at_workers()[0]


def test_workers_that_join_later_are_checked():
    cluster, client = clustered(a=worker())
    cluster.look_at_workers()
    client.workers["tcp://b:1"] = worker(torch="1.0")

    for _ in range(19):
        cluster.progress()
    with pytest.raises(DataError, match=r"worker tcp://b:1 has torch 1\.0"):
        cluster.progress()


def test_two_runs_per_worker_are_given_to_the_scheduler_and_eight_at_least():
    cluster, _ = clustered(**{f"a{number}": worker() for number in range(6)})
    given = 0
    while cluster.has_room:
        cluster.submit(order(str(given)), Path())
        given += 1

    assert given == 8
    cluster.look_at_workers()
    while cluster.has_room:
        cluster.submit(order(str(given)), Path())
        given += 1
    assert given == 12


def test_progress_of_runs_under_way_comes_back():
    cluster, client = clustered()
    cluster.submit(order("mine"), Path())
    client.handler((1.0, ["mine", 0.5, 3, 10.0, None]))
    client.handler((2.0, ["of another study", 0.5, 3, 10.0, None]))

    assert cluster.progress() == [RunProgress("mine", 0.5, 3, 10.0, None)]


@pytest.mark.parametrize(
    ("answer", "has_place"),
    [("OK", True), ("timed out", False), (ValueError("no nanny"), False), (KeyError("tcp"), True),
     (OSError("Timed out"), None)],
    ids=["begins anew", "hangs", "no nanny", "has gone", "scheduler has gone"],
)  # fmt: skip
def test_a_run_that_is_given_up_frees_its_worker_if_that_begins_anew(answer, has_place):
    cluster, client = clustered(a=worker())
    client.restart = answer
    future = cluster.submit(order("mine"), Path())
    client.handler((1.0, ["mine", "tcp://a:1"]))
    cluster.progress()

    assert cluster.has_begun(future)
    if has_place is None:
        with pytest.raises(DataError, match=r"does not answer any more \(Timed out"):
            cluster.give_up(future)
    else:
        assert cluster.give_up(future) is has_place
    assert future.cancelled()
    assert client.restarted == ["tcp://a:1"]


def test_a_repeated_run_has_not_begun_until_a_worker_says_so():
    cluster, client = clustered()
    cluster.submit(order("mine"), Path()).cancel()
    client.handler((1.0, ["mine", "tcp://a:1"]))
    cluster.progress()
    again = cluster.submit(order("mine"), Path())

    assert not cluster.has_begun(again)
    assert cluster.give_up(again)
    assert client.restarted == []


def test_a_lost_connection_ends_the_study_in_one_line():
    cluster, client = clustered()
    client.status = "connecting"

    with pytest.raises(DataError, match="the connection is lost; complete runs are kept"):
        cluster.progress()


def test_a_missing_extra_is_one_line_with_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(ScenarioError, match=r"pip install 'fleetsim\[dask\]'"):
        connect("tcp://127.0.0.1:1")
