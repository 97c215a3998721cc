"""A Dask cluster as the place where the runs of a study are carried out.

A worker carries out a run only if its versions are those of this process. It tells the progress of
a run as events of a topic, and ends a run that is cancelled, or whose client has gone, after the
current round. docs/studies-on-clusters.md says how clusters are started.

Sources: distributed.dask.org, API (`Client.get_executor`, `Client.subscribe_topic`,
`Worker.log_event`) and "Why did my worker die?" (`allowed-failures`).
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from fleetsim.contracts import Progress
from fleetsim.errors import DataError
from fleetsim.host.dask_connection import check_workers, client_of, refusal, versions_here
from fleetsim.host.memory import keep_freed
from fleetsim.quoting import one_line
from fleetsim.scenario import Scenario
from fleetsim.studies.backends import Files
from fleetsim.studies.run_order import RunOrder, carry_out_and_return
from fleetsim.studies.run_process import ProgressSender, RunProgress

_RUNS_PER_WORKER = 2
"""Runs given to the scheduler per worker, so that no worker waits for its next one."""
_LEAST_RUNS = 8
"""Runs given to the scheduler while there are few workers or none yet."""
_LOOK_CALLS = 20
"""Number of looks at the progress between two looks at the workers; 5 s."""
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
            new = [worker for worker in threads if worker not in self._workers]
            check_workers(self._client, self._address, new, self._required)
        except (OSError, TimeoutError) as fault:
            raise self._unreachable(fault) from None
        self._workers |= threads.keys()
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

    def _unreachable(self, fault: Exception) -> DataError:
        return DataError(
            f"--dask {self._address}: does not answer any more ({one_line(str(fault))}); {_GO_ON}"
        )

    def close(self) -> None:
        """Cancel the runs that are not complete, and leave the cluster as it was."""
        self._executor.shutdown(wait=False)
        self._client.close()


def _is_begin(message: Sequence[Any]) -> bool:
    """Return whether a message is that a run has begun: its key and its worker."""
    return len(message) == 2


def connect(address: str) -> DaskCluster:
    """Connect to the scheduler of a Dask cluster."""
    return DaskCluster(client_of(address), address)


class _LeftError(Exception):
    """End of a run whose result nobody waits for."""


def carry_out_on_worker(order: RunOrder, required: Mapping[str, str], topic: str) -> Files:
    """Carry out an order on a Dask worker, which tells its progress as events of a topic."""
    from distributed import get_worker  # noqa: PLC0415 - an extra

    worker = get_worker()
    message = refusal(required, versions_here())
    if message is not None:
        raise DataError(f"worker {worker.address} {message}")
    keep_freed()
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
