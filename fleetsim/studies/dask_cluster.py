"""A Dask cluster as the place where the runs of a study are carried out.

A worker carries out a run only if its versions are those of this process. It tells the progress of
a run as events of a topic, and ends a run that is cancelled, or whose client has gone, after the
current round. docs/studies-on-clusters.md says how clusters are started.

Sources: distributed.dask.org, API (`Client.get_executor`, `Client.run`, `Client.subscribe_topic`,
`Worker.log_event`) and "Why did my worker die?" (`allowed-failures`).
"""

import asyncio
import logging
import platform
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from importlib import metadata
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from fleetsim.contracts import Progress
from fleetsim.errors import DataError, FleetsimError, ScenarioError
from fleetsim.host import numerics
from fleetsim.host.numerics import Numerics
from fleetsim.quoting import one_line, quoted
from fleetsim.scenario import Scenario
from fleetsim.studies.backends import Files
from fleetsim.studies.run_order import RunOrder, carry_out_and_return
from fleetsim.studies.run_process import ProgressSender, RunProgress

_CONNECT_S = 8.0
"""Seconds in which a scheduler must answer."""
_RUNS_PER_WORKER = 2
"""Runs given to the scheduler per worker, so that no worker waits for its next one."""
_LEAST_RUNS = 8
"""Runs given to the scheduler while there are few workers or none yet."""
_LOOK_CALLS = 20
"""Number of looks at the progress between two looks at the workers; 5 s."""
_PACKAGES = ("fleetsim", "torch", "distributed")
"""Packages whose versions must be those of this process."""
_LOGGERS = ("client", "comm", "core", "batched", "utils", "utils_perf")
_GO_ON = "complete runs are kept, and the same command goes on"


class DaskCluster:
    """Dask cluster that carries out runs; made by `connect`."""

    shares_disk = False

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._executor = client.get_executor(pure=False)
        self._busy: dict[Future[Files | None], str] = {}
        """Keys of the runs under way."""
        self._begun: dict[str, str] = {}
        """Workers of the runs that have begun, by key."""
        self._workers: set[str] = set()
        """Workers whose versions are known to fit."""
        self._num_workers = self._num_looks = 0
        self._events: SimpleQueue[list[Any]] = SimpleQueue()
        self._topic = f"fleetsim-{client.id}"
        self._required = versions_here()
        client.subscribe_topic(self._topic, lambda event: self._events.put(event[1]))

    @property
    def has_room(self) -> bool:
        """True if the scheduler has few further runs for its workers."""
        self._busy = {future: key for future, key in self._busy.items() if not future.done()}
        return len(self._busy) < max(_LEAST_RUNS, _RUNS_PER_WORKER * self._num_workers)

    def submit(self, order: RunOrder, folder: Path) -> Future[Files | None]:
        """Give a run to the scheduler; its files come back as the result."""
        self._begun.pop(order.key, None)  # of an earlier attempt: this one waits for a worker
        future: Future[Files | None] = self._executor.submit(
            carry_out_on_worker, order, self._required, self._topic
        )
        self._busy[future] = order.key
        return future

    def has_begun(self, future: Future[Files | None]) -> bool:
        """Return whether a worker has told that it carries a run out."""
        return self._busy.get(future) in self._begun

    def give_up(self, future: Future[Files | None]) -> bool:
        """Cancel a run, and let the nanny of its worker begin the worker anew, if it has one."""
        key = self._busy.pop(future, "")
        future.cancel()
        worker = self._begun.pop(key, None)
        if worker is None:
            return True
        try:
            # Threads cannot be interrupted, and the next run would wait for this one.
            results = self._client.restart_workers([worker], raise_for_error=False)
        except ValueError:
            return False  # there is no nanny
        except KeyError:
            return True  # the worker has gone, and the run with it
        except (OSError, TimeoutError) as fault:
            raise self._unreachable(fault) from None
        return bool(results[worker] == "OK")

    def progress(self) -> list[RunProgress]:
        """Return the progress that runs have told since the last call."""
        if self._client.status != "running":
            raise DataError(f"--dask {self._address}: the connection is lost; {_GO_ON}")
        self._num_looks += 1
        if self._num_looks % _LOOK_CALLS == 0:
            self.look_at_workers()
        messages = [self._events.get() for _ in range(self._events.qsize())]
        # That a run has begun, or its progress.
        self._begun |= dict(filter(_is_begin, messages))
        updates = [RunProgress(*message) for message in messages if not _is_begin(message)]
        keys = set(self._busy.values())
        return [one for one in updates if one.key in keys]

    def look_at_workers(self) -> list[str]:
        """Check the workers that are new; return what the user should know of all of them."""
        try:
            threads: dict[str, int] = self._client.nthreads()
            self._check([worker for worker in threads if worker not in self._workers])
        except (OSError, TimeoutError) as fault:
            raise self._unreachable(fault) from None
        self._num_workers = len(threads)
        if not threads:
            return [f"{self._address} has no workers yet; runs begin when one joins"]
        several = [worker for worker, number in threads.items() if number > 1]
        if not several:
            return []
        return [
            f"a worker carries out one run at a time, and {len(several)} of {len(threads)} have"
            " several threads; start them with: dask worker --nthreads 1 --nworkers N"
        ]

    def _check(self, workers: Sequence[str]) -> None:
        if not workers:
            return
        # Functions of the standard library: fleetsim may be missing there.
        answers_of: dict[str, Mapping[str, Any]] = {
            name: self._ask(metadata.version, name, workers=workers) for name in _PACKAGES
        }
        answers_of["Python"] = self._ask(platform.python_version, workers=workers)
        for worker in workers:
            # An exception says that it is not there.
            texts = {name: answers.get(worker) for name, answers in answers_of.items()}
            versions = {name: one if isinstance(one, str) else None for name, one in texts.items()}
            self._require(worker, refusal(self._required, versions))
        modes = self._ask(numerics.chosen, workers=workers)
        faults = self._ask(numerics.require_settled, workers=workers)
        for worker in workers:
            message = numerics_refusal(numerics.chosen(), modes.get(worker), faults.get(worker))
            self._require(worker, message)
        self._workers |= set(workers)

    def _ask(self, function: Any, *arguments: str, workers: Sequence[str]) -> dict[str, Any]:
        """Return what workers answer, by their address; exceptions are answers."""
        answers: dict[str, Any] = self._client.run(
            function, *arguments, workers=list(workers), on_error="return"
        )
        return answers

    def _unreachable(self, fault: Exception) -> DataError:
        return DataError(
            f"--dask {self._address}: does not answer any more ({one_line(str(fault))}); {_GO_ON}"
        )

    def _require(self, worker: str, message: str | None) -> None:
        if message is not None:
            raise DataError(f"--dask {self._address}: worker {worker} {message}")

    def close(self) -> None:
        """Cancel the runs that are not complete, and leave the cluster as it was."""
        self._executor.shutdown(wait=False)
        self._client.close()


def _is_begin(message: Sequence[Any]) -> bool:
    """Return whether a message is that a run has begun: its key and its worker."""
    return len(message) == 2


def connect(address: str) -> DaskCluster:
    """Connect to the scheduler of a Dask cluster."""
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ScenarioError(
            f"--dask {address}: needs Dask's distributed; install it with: pip install"
            " 'fleetsim[dask]'"
        ) from None
    import dask  # noqa: PLC0415 - it comes with distributed

    # Lost connections are reported in one line, and orders may hold files of 64 MiB.
    for name in _LOGGERS:
        logging.getLogger(f"distributed.{name}").setLevel(logging.CRITICAL + 1)
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"})
    try:
        asyncio.run(_reach(address))
        with warnings.catch_warnings():
            # Versions are checked below, by what runs need.
            warnings.simplefilter("ignore")
            client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as fault:
        reason = one_line(str(fault)) or type(fault).__name__
        raise ScenarioError(
            f"--dask {quoted(address)}: no Dask scheduler answers there ({reason}); start one with"
            " `dask scheduler`, and give the address that it prints, such as tcp://10.0.0.1:8786"
        ) from None
    return DaskCluster(client, address)


async def _reach(address: str) -> None:
    """Open and close a connection; a client whose scheduler does not answer takes long to end."""
    from distributed.comm import connect as open_  # noqa: PLC0415 - an extra
    from distributed.security import Security  # noqa: PLC0415

    connecting = open_(address, timeout=_CONNECT_S, **Security().get_connection_args("client"))
    # Another kind of server may accept the connection and never answer.
    connection = await asyncio.wait_for(connecting, _CONNECT_S)
    connection.abort()


def versions_here() -> dict[str, str]:
    """Return the versions of this process that those of a worker must be equal to."""
    versions = {"Python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in _PACKAGES}
    return {name: _compared(name, version) for name, version in versions.items()}


def refusal(required: Mapping[str, str], versions: Mapping[str, str | None]) -> str | None:
    """Return why a worker with these versions cannot carry out runs; None if it can."""
    for name, version in required.items():
        there = versions.get(name)
        needed = f"Python {version}" if name == "Python" else f"{name}=={version}"
        if there is None:
            return f"has no {name}; install {needed} there"
        if _compared(name, there) != version:
            return f"has {name} {there}, and this process has {version}; install {needed} there"
    return None


def _compared(name: str, version: str) -> str:
    """Return the part of a version that must be equal: torch's end with their build of CUDA.

    >>> _compared("torch", "2.13.0+cu126"), _compared("Python", "3.11.9")
    ('2.13.0', '3.11')
    """
    return ".".join(version.split(".")[:2]) if name == "Python" else version.partition("+")[0]


def numerics_refusal(here: Numerics, there: Any, fault: Any) -> str | None:
    """Return why a worker's numerical mode does not fit; None if it does.

    `fault` is the exception with which the mode is not in effect there.
    """
    if isinstance(there, Numerics) and there is not here:
        return (
            f"computes with {numerics.VARIABLE}={there}, and this process with {here}; set the same"
            " in both environments"
        )
    return f"says: {one_line(str(fault))}" if isinstance(fault, FleetsimError) else None


class _LeftError(Exception):
    """End of a run whose result nobody waits for."""


def carry_out_on_worker(order: RunOrder, required: Mapping[str, str], topic: str) -> Files:
    """Carry out an order on a Dask worker, which tells its progress as events of a topic."""
    from distributed import get_worker  # noqa: PLC0415 - an extra

    worker = get_worker()
    message = refusal(required, versions_here())
    if message is not None:
        raise DataError(f"worker {worker.address} {message}")
    key = worker.get_current_task()
    worker.log_event(topic, [order.key, worker.address])
    send = ProgressSender(order.key, lambda one: worker.log_event(topic, list(one)))

    def watch(scenario: Scenario, progress: Progress) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            # Threads cannot be interrupted: the run has to end itself.
            raise _LeftError
        send(scenario, progress)

    return carry_out_and_return(order, watch)
