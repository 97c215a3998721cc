"""Workers of a Dask cluster that compute chunks of jobs, with the bytes of processes of one host.

Every worker is given the recipe of the kernel, with samples and network, once, and a model when it
is new. The scheduler gives orders to workers as they get free, and those of a lost worker to
another one. A worker refuses to compute on another numerical platform than that of this process.

The recipe is an input only of orders that are given again: the scheduler reduces inputs to one copy
in time, and would give all orders to the worker that has it.

Source: distributed.dask.org, API (`Client.scatter`, `as_completed`), "Scheduling policies", "Active
Memory Manager" and "Why did my worker die?".
"""

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from fleetsim.contracts import Job, JobResult
from fleetsim.errors import DataError, FleetsimError, TrainingError
from fleetsim.host.dask_connection import check_workers, client_of, versions_here
from fleetsim.host.plugin_sources import PluginSource
from fleetsim.kernels.base import Kernel
from fleetsim.quoting import one_line
from fleetsim.training.dask_worker import (
    Recipe,
    carry_out,
    holds,
    keep,
    misfit,
    platform_here,
)
from fleetsim.training.ipc import dumped, packed, unpacked
from fleetsim.training.worker_pool import JobPool, assigned

_ORDERS_PER_WORKER = 4
"""Orders of one call for each worker: few, so that they cost little, and more than one, so that a
fast worker gets more of them."""
_MOST_LOSSES = 4
"""Losses of all workers in one round after which a run fails."""


class DaskWorkers:
    """Workers of a Dask cluster, and the bytes that travel to and from them."""

    def __init__(
        self,
        client: Any,
        address: str,
        plugins: tuple[PluginSource, ...],
        on_note: Callable[[str], None],
    ) -> None:
        """Check the workers; DataError: one does not fit. `plugins` travel with recipes."""
        self.client, self.plugins = client, plugins
        self.versions, self.platform = versions_here(), platform_here()
        self.num_byte: Counter[str] = Counter()
        """Bytes of `data` (recipes), and those `sent` and `received` in rounds."""
        self.place, self._on_note = f"--dask {address}", on_note
        self._workers: list[str] = []
        present = self.present()
        with self.faults_of_dask():
            check_workers(client, address, present, self.versions)
            answers = client.run(misfit, self.versions, self.platform, workers=present)
        for worker, message in answers.items():
            if message is not None:
                raise DataError(f"{self.place}: worker {worker} {message}")

    def present(self) -> list[str]:
        """Return the workers of this moment, once there is one."""
        with self.faults_of_dask():
            while not (present := list(self.client.nthreads())):
                self._on_note(f"{self.place}: has no workers; training goes on when one joins")
                self.client.wait_for_workers(1)
        self._workers = present
        return present

    @property
    def num_workers(self) -> int:
        """Number of workers when they were counted last."""
        return len(self._workers)

    def use(self, num_rounds: int) -> dict[str, int]:
        """Return the use of the cluster in so many rounds with training, for the manifest."""
        return {
            "hosts": len({urlsplit(worker).hostname for worker in self._workers}),
            "workers": self.num_workers,
            "data_byte": self.num_byte["data"],
            "round_sent_byte": self.num_byte["sent"] // max(num_rounds, 1),
            "round_received_byte": self.num_byte["received"] // max(num_rounds, 1),
        }

    def all_hold(self, name: str) -> bool:
        """Return whether every worker holds a recipe, or the kernel of it."""
        with self.faults_of_dask():
            return all(self.client.run(holds, name).values())

    def scatter_recipe(self, recipe: Recipe) -> Any:
        """Send a recipe to all workers; return its future."""
        num_byte = sum(array.nbytes for array in recipe.arrays) + len(recipe.build)
        return self.scatter(recipe, num_byte, "data")

    def give(self, name: str, recipe: Recipe) -> None:
        """Let all workers hold a recipe."""
        scattered = self.scatter_recipe(recipe)
        # In the place of a worker that has gone another one does it. If the recipe has gone with
        # it, orders come back without an answer, and are given again with the recipe.
        with self.faults_of_dask(), suppress(CancelledError):
            kept = [
                self.client.submit(
                    keep, name, scattered, pure=False, workers=worker, allow_other_workers=True
                )
                for worker in self._workers
            ]
            self.client.gather(kept)

    def scatter(self, value: object, num_byte: int, counted: str) -> Any:
        """Send a value to all workers; return its future."""
        self.num_byte[counted] += num_byte * len(self.present())
        with self.faults_of_dask():
            return self.client.scatter([value], broadcast=True, hash=False)[0]

    @contextmanager
    def faults_of_dask(self) -> Iterator[None]:
        """Turn faults of Dask, and of functions on workers, into errors of a run."""
        try:
            yield
        except (FleetsimError, CancelledError):
            raise
        except Exception as fault:  # any fault of a worker: Dask raises it here
            kind, text = type(fault).__name__, one_line(str(fault))
            message = f"a worker failed: {kind}: {text}"
            if kind == "KilledWorker":
                message = (
                    f"several workers died of the same jobs, perhaps for lack of memory: {text}"
                )
            if self.client.status != "running" or kind == "CommClosedError":
                message = f"the connection is lost: {kind}: {text}"
            raise TrainingError(f"{self.place}: {message}; --resume goes on") from fault


@contextmanager
def connected(
    address: str, plugins: tuple[PluginSource, ...], on_note: Callable[[str], None]
) -> Iterator[DaskWorkers]:
    """Connect to the scheduler of a Dask cluster, whose workers compute within the block.

    Raises:
        ScenarioError: no scheduler answers there, or Dask is not installed here.
        DataError: a worker does not fit.
    """
    with client_of(address) as client:
        yield DaskWorkers(client, address, plugins, on_note)


class _Order(NamedTuple):
    """Calls that one worker computes."""

    verb: str
    calls: bytes
    models: list[Any]
    """Models [P] from which they start."""


class DaskPool(JobPool):
    """Workers of a Dask cluster that compute the jobs of one kernel."""

    def __init__(self, build: Callable[[], Kernel], workers: DaskWorkers) -> None:
        """Build the kernel here, and let every worker build the same."""
        from cloudpickle import Pickler  # noqa: PLC0415 - of Dask

        # First: a kernel that is built changes its network. What a script defines travels, too.
        code, views = dumped(build, Pickler)
        arrays = [np.frombuffer(view, np.uint8) for view in views]
        facts = workers.versions, workers.platform, workers.plugins
        self._recipe = Recipe(*facts, code, arrays)
        digest = hashlib.sha256(repr(facts).encode() + code)
        for array in arrays:
            digest.update(array.data)
        self._name = digest.hexdigest()
        super().__init__(build(), workers.num_workers)
        self._workers = workers
        self._models: dict[int, tuple[Any, Any]] = {}
        """Models of the last calls by identity, with their futures."""
        self._shares: list[list[int]] = []
        self._orders: list[_Order] = []
        self._futures: list[Any] = []
        if not workers.all_hold(self._name):
            workers.give(self._name, self._recipe)

    def _hand_out(self, chunks: Sequence[list[Job]], loads: Sequence[int]) -> None:
        self.num_processes = len(self._workers.present())
        # The heaviest first.
        self._shares = assigned(loads, _ORDERS_PER_WORKER * self.num_processes)[::-1]
        self._orders = []
        for share in self._shares:
            jobs: list[Any] = [job for chunk in share for job in chunks[chunk]]
            models = {id(job.base): job.base for job in jobs}
            numbers = {key: number for number, key in enumerate(models)}
            rest = iter([job._replace(base=numbers[id(job.base)]) for job in jobs])
            calls = [packed(list(islice(rest, len(chunks[chunk])))) for chunk in share]
            self._orders.append(_Order("compute", pickle.dumps(calls), list(models.values())))
        self._futures = self._begun(self._orders)

    def _computed(self) -> Iterable[tuple[int, list[JobResult]]]:
        answers = self._answers(self._orders, self._futures)
        self._futures = []
        for share, answer in zip(self._shares, answers, strict=True):
            yield from zip(share, map(unpacked, answer), strict=True)

    def _drop(self) -> None:
        self._futures = []  # Dask cancels what nobody waits for

    def _evaluated(self, calls: Sequence[tuple[Any, ...]]) -> Iterable[Any]:
        orders = [_Order("evaluate", pickle.dumps([call[1:]]), [call[0]]) for call in calls]
        return [one for (one,) in self._answers(orders, self._begun(orders))]

    def _begun(self, orders: Sequence[_Order], recipe: Any = None) -> list[Any]:
        """Give orders to the scheduler, maybe with the recipe's future; return their futures."""
        models = {id(model): model for order in orders for model in order.models}
        self._models = {
            key: self._models.get(key)
            or (model, self._workers.scatter(model, model.nbytes, "sent"))
            for key, model in models.items()
        }
        futures = [[self._models[id(model)][1] for model in order.models] for order in orders]
        self._workers.num_byte["sent"] += sum(len(order.calls) for order in orders)
        verbs, calls, _ = zip(*orders, strict=True)
        with self._workers.faults_of_dask():
            begun: list[Any] = self._workers.client.map(
                partial(carry_out, self._name),
                [recipe] * len(orders),
                verbs,
                calls,
                futures,
                pure=False,
            )
        return begun

    def _answers(self, orders: Sequence[_Order], futures: list[Any]) -> list[Any]:
        """Return the results of orders, in their order; those that were lost are begun again."""
        from distributed import as_completed  # noqa: PLC0415 - an extra

        answers: dict[int, Any] = {}
        numbers = {future: number for number, future in enumerate(futures)}
        for _ in range(_MOST_LOSSES):
            with self._workers.faults_of_dask():
                loop = self._workers.client.loop
                for future, answer in as_completed(list(numbers), loop=loop, with_results=True):
                    if not future.cancelled() and answer:
                        self._workers.num_byte["received"] += len(answer)
                        answers[numbers[future]] = pickle.loads(answer)
            lost = [number for number in range(len(orders)) if number not in answers]
            if not lost:
                return [answers[number] for number in range(len(orders))]
            # A worker has joined, or those that held a model have gone.
            self._models.clear()
            recipe = self._workers.scatter_recipe(self._recipe)
            again = self._begun([orders[number] for number in lost], recipe)
            numbers = dict(zip(again, lost, strict=True))
        raise TrainingError(
            f"{self._workers.place}: all workers were lost {_MOST_LOSSES} times in one round,"
            " perhaps for lack of memory; start them with more, and continue by --resume"
        )
