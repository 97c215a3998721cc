"""Workers of a Dask cluster that compute chunks of jobs, with the bytes of processes of one host.

Every worker receives samples and network once, and models as they change, by their content. The
scheduler gives orders to workers as they get free, and those of a lost worker to another one.
Chunks and the order of results are those of `worker_pool`, and a worker has the numerical platform
of this process, so it shows in no bit where a chunk was computed.

Source: distributed.dask.org, "Scheduling policies" and "Why did my worker die?".
"""

import operator
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import Job, JobResult, Parameters
from fleetsim.errors import DataError, FleetsimError, TrainingError
from fleetsim.host.dask_connection import check_workers, client_of, versions_here
from fleetsim.host.plugin_sources import PluginSource
from fleetsim.kernels.base import Kernel, ServerSet
from fleetsim.kernels.cpu.numerical_platform import resolve
from fleetsim.quoting import one_line
from fleetsim.training.content_parts import PIECE_BYTE, digest_of, pack
from fleetsim.training.dask_worker import Order, Recipe, carry_out, receive, standing
from fleetsim.training.ipc import packed, unpacked
from fleetsim.training.worker_pool import arrays_of, assigned, loads_of, ranges_of

_ORDERS_PER_WORKER = 4
"""Orders of one call for each worker: few, so that they cost little, and more than one, so that a
fast worker gets more of them."""
_LOOK_S = 5.0
"""Seconds between two looks at the cluster while orders are computed."""
_MOST_ATTEMPTS = 20
"""Most times that an order may come back because its worker lacks parts of it."""

_LOST = ("CommClosedError", "FuturesCancelledError", "TimeoutError")
"""Exceptions of Dask when the scheduler has gone."""

Parts = Mapping[str, Any]
"""Arrays or bytes by the digests of their content."""


class _Sent(NamedTuple):
    """Orders under way."""

    orders: list[bytes]
    parts: Parts
    """What they need."""
    futures: list[Any]


class DaskWorkers:
    """Workers of a Dask cluster, that carry orders out; made by `connected`."""

    def __init__(
        self,
        client: Any,
        address: str,
        plugins: tuple[PluginSource, ...],
        on_note: Callable[[str], None],
    ) -> None:
        """Use a client; `plugins` travel with recipes."""
        self.plugins = plugins
        self.platform = resolve(torch_device="cpu")
        self.num_byte: Counter[str] = Counter()
        """Bytes of `data` that were sent before the first round, and those `sent` and `received`
        since then."""
        self._client, self._address, self._on_note = client, address, on_note
        self._required = versions_here()
        self._present: frozenset[str] = frozenset()
        self._fitting: set[str] = set()
        """Workers that were checked."""
        self._standings({})

    @property
    def num_workers(self) -> int:
        """Number of workers when they were asked last, at least 1."""
        return len(self._present)

    @property
    def num_hosts(self) -> int:
        """Number of hosts on which they are."""
        return len({urlsplit(worker).hostname for worker in self._present})

    def kernel_and_pool(self, build: Callable[[], Kernel]) -> tuple[Kernel, "DaskPool"]:
        """Return the kernel that `build` builds, and a pool of it; workers build the same."""
        recipe = pack(build, digest_of)  # first: a kernel that is built changes its network
        kernel = build()
        return kernel, DaskPool(kernel, recipe, self)

    def use(self, num_rounds: int) -> dict[str, int]:
        """Return the use of the cluster in so many rounds with training, for the manifest."""
        num_byte = self.num_byte
        return {
            "hosts": self.num_hosts,
            "workers": self.num_workers,
            "data_byte": num_byte["data"],
            "rounds": num_rounds,
            "sent_byte": num_byte["sent"],
            "received_byte": num_byte["received"],
        }

    def send(self, parts: Parts) -> None:
        """Send each worker the parts that it lacks."""
        lacking = self._standings(parts)
        for name, part in parts.items():
            workers = [worker for worker, names in lacking.items() if name in names]
            if not workers:
                continue
            content = np.frombuffer(part, np.uint8)
            for start in range(0, len(content), PIECE_BYTE):
                piece = content[start : start + PIECE_BYTE].tobytes()
                self.num_byte["sent"] += len(workers) * len(piece)
                # A worker that dies meanwhile does not need it.
                self._run(receive, name, len(content), start, piece, tuple(parts), workers=workers)

    def begin(self, orders: Sequence[Order], parts: Parts) -> _Sent:
        """Give orders to the scheduler; `parts` are what they need."""
        return self._begin([pickle.dumps(order, protocol=5) for order in orders], parts)

    def answers(self, sent: _Sent) -> list[Any]:
        """Return the results of orders, in their order.

        Raises:
            TrainingError: a worker failed, or the connection is lost; the run can be resumed.
            PluginError: code of the user's own failed.
            DataError: a worker that has joined does not fit.
        """
        import distributed  # noqa: PLC0415 - an extra

        waiting = {future: number for number, future in enumerate(sent.futures)}
        answers: dict[int, Any] = {}
        num_attempts: Counter[int] = Counter()
        while waiting:
            with self._told_faults(), self._client.as_current():
                try:
                    done = distributed.wait(list(waiting), _LOOK_S, "FIRST_COMPLETED").done
                except TimeoutError:
                    self._standings({})
                    continue
                results = self._client.gather(list(done))
            again = []
            for future, result in zip(done, results, strict=True):
                number = waiting.pop(future)
                if result is None:
                    again.append(number)
                    continue
                self.num_byte["received"] += len(result)
                answers[number] = [unpacked(one) for one in pickle.loads(result)]
            if again:
                # They went to a worker that has just joined.
                num_attempts.update(again)
                self._require_progress(max(num_attempts.values()))
                orders = [sent.orders[number] for number in again]
                waiting |= zip(self._begin(orders, sent.parts).futures, again, strict=True)
        return [answers[number] for number in range(len(sent.orders))]

    def _begin(self, orders: list[bytes], parts: Parts) -> _Sent:
        self.send(parts)
        self.num_byte["sent"] += sum(map(len, orders))
        with self._told_faults():
            return _Sent(orders, parts, self._client.map(carry_out, orders, pure=False))

    def _require_progress(self, num_attempts: int) -> None:
        if num_attempts > _MOST_ATTEMPTS:
            raise TrainingError(
                f"--dask {self._address}: workers do not keep what they are sent; start them with"
                " more memory"
            )

    def _standings(self, parts: Parts) -> dict[str, list[str]]:
        """Return what each worker lacks, once there is one; check those that are new."""
        is_told = False
        while True:
            answers = self._run(standing, tuple(parts))
            # A worker that cannot be reached has just gone.
            answers = {one: it for one, it in answers.items() if not isinstance(it, OSError)}
            new = [worker for worker in answers if worker not in self._fitting]
            with self._told_faults():
                check_workers(self._client, self._address, new, self._required)
            for worker in new:
                self._require_platform(worker, answers[worker])
            self._fitting |= set(new)
            if answers:
                self._present = frozenset(answers)
                return {worker: answer.lacking for worker, answer in answers.items()}
            if not is_told:
                self._on_note(f"{self._address} has no workers; training goes on when one joins")
                is_told = True
            with self._told_faults():
                self._client.wait_for_workers(1)

    def _require_platform(self, worker: str, answer: Any) -> None:
        place = f"--dask {self._address}: worker {worker}"
        if isinstance(answer, Exception):
            raise DataError(f"{place} says: {one_line(str(answer))}")
        names = sorted({*self.platform, *answer.platform})
        pairs = {name: (self.platform.get(name), answer.platform.get(name)) for name in names}
        others = [f"{name} ({a}, {b})" for name, (a, b) in pairs.items() if a != b]
        if others:
            raise DataError(
                f"{place} has another numerical platform than this process, so results would"
                f" depend on who computes: {', '.join(others)}; use workers like this machine, or"
                " --numerics portable here and on all workers"
            )

    def _run(
        self, function: Any, *arguments: Any, workers: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return what workers answer, by their address; exceptions are answers."""
        with self._told_faults():
            answers: dict[str, Any] = self._client.run(
                function, *arguments, workers=workers, on_error="return"
            )
        return answers

    @contextmanager
    def _told_faults(self) -> Iterator[None]:
        """Turn faults of Dask, and of functions on workers, into errors of one run."""
        try:
            yield
        except FleetsimError:
            raise
        except Exception as fault:  # any fault of a worker: Dask raises it here
            text = one_line(str(fault)) or type(fault).__name__
            kind = type(fault).__name__
            if self._client.status != "running" or kind in _LOST:
                message = f"the connection is lost ({text}); --resume goes on"
            elif kind == "KilledWorker":
                message = (
                    "several workers died of the same jobs, for instance for lack of memory; start"
                    f" them with more, and go on with --resume ({text})"
                )
            else:
                message = f"a worker failed: {kind}: {text}"
            raise TrainingError(f"--dask {self._address}: {message}") from fault

    def close(self) -> None:
        """Cancel what is under way, and leave the cluster as it was."""
        self._client.close()


@contextmanager
def connected(
    address: str, plugins: tuple[PluginSource, ...], on_note: Callable[[str], None]
) -> Iterator[DaskWorkers]:
    """Connect to the scheduler of a Dask cluster, whose workers compute within the block.

    Raises:
        ScenarioError: no scheduler answers there, or Dask is not installed here.
        DataError: a worker does not fit.
    """
    client = client_of(address)
    try:
        workers = DaskWorkers(client, address, plugins, on_note)
    except BaseException:
        client.close()
        raise
    try:
        yield workers
    finally:
        workers.close()


class DaskPool:
    """Workers of a Dask cluster that compute the jobs of one kernel."""

    def __init__(self, kernel: Kernel, build: tuple[bytes, Parts], workers: DaskWorkers) -> None:
        """Send workers what they need to build the kernel: code and arrays, by `pack`."""
        self.origins: Counter[str] = Counter()
        """Empty: there is no store."""
        self._kernel, self._workers = kernel, workers
        self._named: dict[int, tuple[NDArray[Any], str]] = {}
        """Arrays that were named last with their names, by identity."""
        code, arrays = build
        recipe = pickle.dumps(Recipe(workers.plugins, workers.platform, code), protocol=5)
        self._recipe = digest_of(recipe)
        self._parts: dict[str, Any] = {self._recipe: recipe, **arrays}
        self._begun: tuple[list[Job], list[list[int]], _Sent] | None = None
        workers.send(self._parts)
        workers.num_byte["data"] = workers.num_byte.pop("sent", 0)

    def begin(self, jobs: Sequence[Job]) -> None:
        """Let workers begin jobs that `compute` will be called with next."""
        if len(jobs) == 0:
            return
        chunks = self._kernel.chunks(jobs)
        of_chunks = [[jobs[i] for i in chunk] for chunk in chunks]
        num_orders = _ORDERS_PER_WORKER * self._workers.num_workers
        shares = assigned(loads_of(self._kernel, of_chunks), num_orders)[::-1]
        counts = Counter(
            key
            for share in shares
            for key in arrays_of(job for chunk in share for job in of_chunks[chunk])
        )
        sent = self._send(
            "compute",
            [[packed(of_chunks[chunk]) for chunk in share] for share in shares],
            lambda array: counts[id(array)] > 1,
        )
        in_order = [[i for chunk in share for i in chunks[chunk]] for share in shares]
        self._begun = (list(jobs), in_order, sent)

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the results of jobs, in their order; ValueError: other jobs were begun."""
        if self._begun is None:
            self.begin(jobs)
        begun, self._begun = self._begun, None
        if begun is None:
            return []
        begun_jobs, in_order, sent = begun
        if len(begun_jobs) != len(jobs) or any(map(operator.is_not, begun_jobs, jobs)):
            raise ValueError("other jobs were begun than are requested")
        results: dict[int, JobResult] = {}
        for share, answer in zip(in_order, self._workers.answers(sent), strict=True):
            flat = [result for chunk in answer for result in chunk]
            results |= zip(share, flat, strict=True)
        return [results[i] for i in range(len(jobs))]

    def evaluate(
        self, parameters: Parameters, server_set: ServerSet
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return losses and hits [n] of a model [P] on samples of the server."""
        num_samples = self._kernel.num_server_samples(server_set)
        calls = [
            [(parameters, server_set, *samples)]
            for samples in ranges_of(num_samples, self._workers.num_workers)
        ]
        sent = self._send("evaluate", calls, lambda array: len(calls) > 1)
        losses, hits = zip(*(one for (one,) in self._workers.answers(sent)), strict=True)
        return np.concatenate(losses), np.concatenate(hits)

    def _send(
        self, verb: str, shares: Sequence[Any], is_shared: Callable[[NDArray[Any]], bool]
    ) -> _Sent:
        """Give calls to the workers; arrays that several orders share are sent as parts."""
        before, self._named = self._named, {}

        def name_of(array: NDArray[Any]) -> str | None:
            if not is_shared(array):
                return None
            key = id(array)
            known = self._named.get(key) or before.get(key) or (array, digest_of(array))
            self._named[key] = known
            return known[1]

        orders, parts = [], dict(self._parts)
        for share in shares:
            calls, arrays = pack(share, name_of)
            parts |= arrays
            orders.append(Order(self._recipe, (*self._parts, *arrays), verb, calls))
        return self._workers.begin(orders, parts)
