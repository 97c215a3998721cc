"""Store of results of training on disk, found again by content.

A job is a pure function, so the results of the jobs that a kernel computes together follow from
the jobs, the samples, the settings, the code and the numerical platform. The SHA-256 of all this is
the name of an entry: a checksum and a safetensors file.

Processes and hosts may share a folder. An entry is written under another name and renamed; one with
a wrong checksum is deleted and computed again. Nothing in a folder is executed, no link in it is
followed, and none but the store's files are deleted. docs/decisions/0068 says what is stored.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, TypeAdapter
from safetensors import SafetensorError

from fleetsim.contracts import Evaluation, Job, JobResult, Parameters
from fleetsim.errors import DataError
from fleetsim.host.new_files import created_beside, final_name
from fleetsim.kernels.base import ServerSet

if os.name == "posix":
    import fcntl

MOST_BYTE, _FREE_SHARE = 16 * 2**30, 0.25
"""Largest size of a folder, and largest share of the free disk."""
_FULL_SHARE, _LEFT_SHARE = 7 / 8, 3 / 4
"""Shares of the size above which entries are deleted, and that are left."""
_UNSEEN_SHARE = 1 / 64
"""Share of the size after which a process sees what others have written, so that eight keep it."""
_GAIN, _NUM_TRIED = 5.0, 8
"""Least ratio of the time to compute a result to that to store it, and number of entries of a kind
on which the verdict is based."""
_MOST_BYTE_PER_S = 20 * 2**20
"""Bytes that a second of computing is worth: a folder of 1 GiB saves 51 s at least."""
_PATIENCE_S, _LOOK_PERIOD_S = 600.0, 0.01
"""Longest wait for another process that computes a result, and time between two attempts."""
_MOST_OF_BASE, _MOST_OTHER_BYTE = 16, 2**26
"""Largest size of an entry that is read: in models from which its jobs begin, and other bytes."""
_DIGEST_BYTE, _LEAST_BYTE = 32, 2**16
"""Bytes of a checksum, and those that an entry counts at least, so that files are not too many."""
_NAME = re.compile(r"[0-9a-f]{64}\.entry|[0-9a-f]{50}")
"""Names of entries, and of those whose writing was killed."""
_FLAGS = sum(getattr(os, f"O_{name}", 0) for name in ("BINARY", "CLOEXEC", "NOFOLLOW", "NONBLOCK"))
_NAMED = ("state", "sent")
"""Fields of a result that are arrays by name."""


class Obtained(NamedTuple):
    """Results of jobs that are computed together, and their origin."""

    results: list[JobResult]
    origin: Literal["found", "computed", "damaged"]
    """`damaged`: computed because the entry was damaged."""


class ResultsStore:
    """Entries of one context in a folder, which other contexts and processes may use, too."""

    def __init__(self, folder: Path, context: str, *, most_byte: int | None = None) -> None:
        """Open or make the folder.

        `context` is a digest of everything that results follow from beside the jobs. `most_byte` is
        the largest size of the folder; None: `MOST_BYTE`, or less on a small disk.

        Raises:
            DataError: the folder cannot be made.
        """
        self._folder, self._context = folder, context
        try:
            folder.mkdir(parents=True, exist_ok=True)
            free_byte = shutil.disk_usage(folder).free
        except OSError as fault:
            raise DataError(
                f"{folder}: cannot be made: {fault.strerror}; choose another --results-cache"
            ) from None
        entries = list(self._entries())
        free_byte += sum(size for _, size, _ in entries)
        self._most_byte = most_byte or min(MOST_BYTE, int(_FREE_SHARE * free_byte))
        self._newest_s = max((used_at_s for used_at_s, _, _ in entries), default=-np.inf)
        self._unseen_byte, self._is_full = 0, False
        self._tried: dict[str, list[tuple[Path, bool]]] = {}
        """First entries of each kind of work, and whether each was worth storing."""
        self._known: list[tuple[Any, str]] = []
        """Digests of the arrays that were hashed last."""

    def results(
        self, chunks: Iterable[list[Job]], compute: Callable[[list[Job]], list[JobResult]]
    ) -> list[Obtained]:
        """Return the results of jobs that are computed together, stored ones or computed now.

        A chunk is taken when the results before it are there. Those that another process computes
        at present are left for the end.
        """

        def obtained(jobs: list[Job], *, waits: bool) -> Obtained | None:
            bases, key = [job.base for job in jobs], partial(self._key_of, jobs)
            return self._once(jobs[0].work.kind, key, bases, partial(compute, jobs), waits)

        all_jobs, first = [], []
        for jobs in chunks:
            all_jobs.append(jobs)
            first.append(obtained(jobs, waits=False))
        pairs = zip(all_jobs, first, strict=True)
        every = [one or obtained(jobs, waits=True) for jobs, one in pairs]
        return [one for one in every if one is not None]

    def evaluation(
        self, parameters: Parameters, server_set: ServerSet, compute: Callable[[], Evaluation]
    ) -> Evaluation:
        """Return the evaluation of a model [P] on samples of the server, stored or computed now."""

        def as_results() -> list[JobResult]:
            evaluation = compute()
            return [JobResult(0, loss=evaluation.loss, accuracy=evaluation.accuracy)]

        obtained = self._once(
            "global model",
            lambda: self._key(server_set, self._digest(parameters)),
            [parameters],
            as_results,
            waits=True,
        )
        assert obtained is not None
        result = obtained.results[0]
        return Evaluation(accuracy=result.accuracy, loss=result.loss)

    def _once(
        self,
        kind: str,
        key_of: Callable[[], str],
        bases: Sequence[Parameters],
        compute: Callable[[], list[JobResult]],
        waits: bool,
    ) -> Obtained | None:
        """Return results, stored or computed now; None: another process computes them.

        Once it was measured that a kind of results is not worth storing, they are computed.
        """
        tried = self._tried.setdefault(kind, [])
        if _is_not_worth_it(tried):
            return Obtained(compute(), "computed")
        key = key_of()
        path = self._folder / f"{key}.entry"
        results, was_damaged = self._read(path, bases)
        if results is not None:
            return Obtained(results, "found")
        with self._locked(key, waits=waits) as is_locked:
            if not (is_locked or waits):
                return None
            results, is_damaged = self._read(path, bases)
            if results is not None:
                return Obtained(results, "found")
            times_s = [time.perf_counter()]
            results = compute()
            times_s.append(time.perf_counter())
            num_byte = self._write(path, results)
            if len(tried) < _NUM_TRIED:
                computed_s, stored_s = np.diff([*times_s, time.perf_counter()])
                least_s = max(_GAIN * stored_s, num_byte / _MOST_BYTE_PER_S)
                tried.append((path, bool(computed_s >= least_s)))
                # One measurement of a busy machine decides on nothing.
                for each, _ in tried if _is_not_worth_it(tried) else ():
                    with suppress(OSError):
                        each.unlink(missing_ok=True)
        return Obtained(results, "damaged" if was_damaged or is_damaged else "computed")

    def _key_of(self, jobs: Sequence[Job]) -> str:
        return self._key(
            *(
                (
                    *(int(job.client), repr(replace(job.work, clock_fraction=1.0, counted=None))),
                    *(self._digest(job.base), [int(part) for part in job.address]),
                    *(job.learning_rate, job.most_steps),
                    *(
                        arrays and [(name, _digest(arrays[name])) for name in sorted(arrays)]
                        for arrays in (job.state, job.received)
                    ),
                )
                for job in jobs
            )
        )

    def _key(self, *parts: Any) -> str:
        return hashlib.sha256(f"{self._context}{json.dumps(parts)}".encode()).hexdigest()

    def _digest(self, array: Parameters) -> str:
        for known, digest in self._known:
            if known is array:
                return digest
        self._known = [(array, _digest(array)), *self._known[:1]]
        return self._known[0][1]

    def _read(self, path: Path, bases: Sequence[Parameters]) -> tuple[list[JobResult] | None, bool]:
        """Return stored results; and whether there were damaged ones, which are deleted."""
        with ExitStack() as opened:
            try:
                descriptor = os.open(path, os.O_RDONLY | _FLAGS)
                opened.callback(os.close, descriptor)
                status = os.fstat(descriptor)
                most_byte = _MOST_OF_BASE * sum(base.nbytes for base in bases) + _MOST_OTHER_BYTE
                if not stat.S_ISREG(status.st_mode) or status.st_size > most_byte:
                    return None, False
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    digest, data = file.read(_DIGEST_BYTE), file.read(status.st_size)
            except OSError:
                return None, False
        with suppress(ValueError, KeyError, TypeError, RecursionError, SafetensorError):
            if hashlib.sha256(data).digest() == digest:
                results = decoded(data, bases)
                with suppress(OSError, NotImplementedError):
                    os.utime(path, follow_symlinks=False)  # used last
                return results, False
        with suppress(OSError):
            path.unlink()
        return None, True

    def _write(self, path: Path, results: list[JobResult]) -> int:
        """Write an entry; return the bytes that it counts."""
        data = None if self._is_full else encoded(results)
        if data is None:
            return 0
        # A full disk costs the entry, not the run.
        with suppress(OSError):
            new, file = created_beside(path)
            try:
                with file:
                    file.writelines([hashlib.sha256(data).digest(), data])
                new.replace(path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
            self._count(len(data))
        return max(len(data), _LEAST_BYTE)

    def _count(self, num_byte: int) -> None:
        """Count what was written; above the size, delete the entries that were used longest ago.

        Entries younger than this run stay: it writes no more instead. A run whose entries do not
        fit would otherwise delete its first rounds, and the next one would find none.
        """
        self._unseen_byte += max(num_byte, _LEAST_BYTE)
        if self._unseen_byte < _UNSEEN_SHARE * self._most_byte:
            return
        self._unseen_byte = 0
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        if total > _FULL_SHARE * self._most_byte:
            for used_at_s, size, path in entries:
                if total > _LEFT_SHARE * self._most_byte and used_at_s <= self._newest_s:
                    with suppress(OSError):
                        path.unlink()
                    total -= size
        self._is_full = total > _FULL_SHARE * self._most_byte

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yield time of last use, size and path of every entry, and of what kills have left."""
        with suppress(OSError), os.scandir(self._folder) as found:
            for each in found:
                if _NAME.fullmatch(final_name(each.name) or each.name):
                    status = each.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield status.st_mtime, max(status.st_size, _LEAST_BYTE), Path(each.path)

    @contextmanager
    def _locked(self, key: str, *, waits: bool) -> Iterator[bool]:
        """Hold the lock of a key, which a process loses when it ends; False: another one has it.

        It is the lock of one byte of a file, by the key. Without locks, as on Windows and on some
        shared disks, results may be computed twice.
        """
        with ExitStack() as opened:
            is_free = True
            with suppress(OSError):
                descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | _FLAGS, 0o666)
                opened.callback(os.close, descriptor)
                until_s = time.monotonic() + waits * _PATIENCE_S
                while not (is_free := _lock_byte(descriptor, int(key[:15], 16))):
                    if time.monotonic() >= until_s:
                        break
                    time.sleep(_LOOK_PERIOD_S)
            yield is_free


def _is_not_worth_it(tried: Sequence[tuple[Path, bool]]) -> bool:
    return len(tried) >= _NUM_TRIED > 2 * sum(is_worth_it for _, is_worth_it in tried)


def _lock_byte(descriptor: int, at: int) -> bool:
    """Lock a byte of a file; False: another process has it."""
    if os.name != "posix":
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
    except (BlockingIOError, PermissionError):
        return False
    return True


def context_of(settings: Mapping[str, Any]) -> str:
    """Return the digest of what results follow from beside the jobs; the code is added here."""
    text = json.dumps({**settings, "code": _code_sha256()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(array: Any) -> str:
    """Return the SHA-256 of an array's type, shape and content."""
    plain = np.asarray(array, order="C")
    total = hashlib.sha256(f"{plain.dtype.str}{plain.shape}".encode())
    total.update(plain.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


class _Row(BaseModel):
    """A result without its arrays, of which it has the names."""

    model_config = ConfigDict(extra="forbid")

    num_samples: int
    loss: float | None
    loss_rms: float | None
    accuracy: float | None
    vector: bool
    epoch_losses: tuple[float, ...] | None
    state: list[str] | None
    sent: list[str] | None
    metrics: dict[str, int | float] | None


_ROWS = TypeAdapter(list[_Row])


def encoded(results: Sequence[JobResult]) -> bytes | None:
    """Return results as bytes; None if they hold what would not be read as it is."""
    arrays: dict[str, Any] = {}
    rows = []
    for index, result in enumerate(results):
        row = {**result._asdict(), "vector": result.vector is not None}
        if result.vector is not None:
            arrays[f"{index}"] = result.vector
        for name in _NAMED:
            if row[name] is not None:
                arrays |= {f"{index}.{name}.{key}": array for key, array in row[name].items()}
                row[name] = list(row[name])
        rows.append(row)
    try:
        whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        return safetensors.numpy.save(whole, {"results": json.dumps(rows)})
    except (KeyError, TypeError, ValueError, SafetensorError):
        return None


def decoded(data: bytes, bases: Sequence[Parameters]) -> list[JobResult]:
    """Return the results of `encoded`, one for each base [P], of whose form vectors are.

    ValueError, KeyError, TypeError, RecursionError or SafetensorError: the bytes are no results.
    """
    arrays = safetensors.numpy.load(data)  # checks the sizes, too
    header_byte = int.from_bytes(data[:8], "little")
    rows = json.loads(json.loads(data[8 : 8 + header_byte])["__metadata__"]["results"])
    results = []
    for index, (row, base) in enumerate(zip(_ROWS.validate_python(rows), bases, strict=True)):
        vector = arrays[f"{index}"] if row.vector else None
        if vector is not None and (vector.dtype, vector.shape) != (base.dtype, base.shape):
            raise ValueError("a vector is not of the form of its base")
        fields = {**dict(row), "vector": vector}
        for name in _NAMED:
            if fields[name] is not None:
                fields[name] = {key: arrays[f"{index}.{name}.{key}"] for key in fields[name]}
        results.append(JobResult(**fields))
    return results


@cache
def _code_sha256() -> str:
    """Return the SHA-256 of the files whose code computes results."""
    home, total = Path(__file__).resolve().parents[1], hashlib.sha256()
    folders = ("contracts", "host", "kernels", "learning", "training")
    files = [file for name in folders for file in (home / name).rglob("*.py")]
    for file in sorted([*files, home / "counts.py", home / "rng.py"]):
        total.update(f"{file.relative_to(home)};".encode() + file.read_bytes())
    return total.hexdigest()
