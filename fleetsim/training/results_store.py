"""Store of results of training on disk, found again by content.

A job is a pure function, so the results of a chunk of jobs, which are computed together, follow
from what the jobs, the samples, the settings, the code and the numerical platform are. The SHA-256
of all this is the name of an entry. A kernel whose jobs are computed one at a time has chunks of
one job; for others a chunk is the least that has the same bits in any company.

Processes may share a folder. A damaged entry is deleted and computed again.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from safetensors import SafetensorError

from fleetsim.contracts import Evaluation, Job, JobResult, Parameters
from fleetsim.errors import DataError
from fleetsim.host.new_files import created_beside
from fleetsim.kernels.base import ServerSet, TrainerData
from fleetsim.learning.data.dataset import ByteImages

if os.name == "posix":
    import fcntl

MOST_BYTE = 4 * 2**30
"""Size above which the entries that were used longest ago are deleted."""
_KEPT_SHARE = 0.8
"""Share of the size that is left by a deletion."""
_READ_S, _READ_BYTE_S = 5e-4, 4e8
"""Host time to find an entry, and rate at which it is read, both cautious."""
_FEWEST_TRIED = 8
"""Chunks after which nothing is stored any more if none was worth it."""
_DIGEST_BYTE = 32
_ARRAYS = ("vector",)
_MAPPINGS = ("state", "sent")


class ResultsStore:
    """Entries of one context in a folder; `num_found` and `num_computed` count chunks of jobs."""

    def __init__(
        self, folder: Path, context: bytes, *, most_byte: int = MOST_BYTE, is_worth: bool = False
    ) -> None:
        """Open or create it.

        Args:
            folder: folder of the entries, shared with other runs.
            context: digest of everything that the results follow from beside the jobs.
            most_byte: size of the folder that is kept.
            is_worth: True stores every entry; False only those that are read faster than computed.

        Raises:
            DataError: the folder cannot be made.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise DataError(
                f"{folder}: cannot be made: {fault.strerror}; choose another --results-cache"
            ) from None
        self._folder, self._context, self._most_byte = folder, context, most_byte
        self._is_worth = is_worth
        self._num_tried = self._num_kept = 0
        self._known: list[tuple[Any, bytes]] = []
        """Digests of the arrays that were hashed last."""
        self._written_byte: int | None = None
        self.num_found = self.num_computed = self.num_damaged = 0

    @property
    def is_used(self) -> bool:
        """False once it is known that results are computed faster than read."""
        return self._num_kept > 0 or self._num_tried < _FEWEST_TRIED

    def results(
        self, jobs: Sequence[Job], compute: Callable[[], list[JobResult]], *, waits: bool
    ) -> list[JobResult] | None:
        """Return the results of a chunk: stored ones, or else those of `compute`.

        While another process computes them: wait, or return None.
        """
        return self._once(self._key_of_jobs(jobs), compute, waits=waits)

    def evaluation(
        self, parameters: Parameters, server_set: ServerSet, compute: Callable[[], Evaluation]
    ) -> Evaluation:
        """Return the evaluation of a model [P]: a stored one, or else that of `compute`."""

        def as_result() -> list[JobResult]:
            result = compute()
            return [JobResult(0, loss=result.loss, accuracy=result.accuracy)]

        key = self._key("evaluation", server_set, self._digest(parameters).hex())
        found = self._once(key, as_result, waits=True)
        assert found is not None
        (stored,) = found
        return Evaluation(accuracy=stored.accuracy, loss=stored.loss)

    def found(self, jobs: Sequence[Job]) -> list[JobResult] | None:
        """Return the stored results of a chunk; None if there are none."""
        return self._read(self._key_of_jobs(jobs)) if self.is_used else None

    def keep(self, jobs: Sequence[Job], results: list[JobResult], seconds: float) -> None:
        """Store the results of a chunk that took so many seconds to compute."""
        self._write(self._key_of_jobs(jobs), results, seconds)

    def _once(
        self, key: str, compute: Callable[[], list[JobResult]], *, waits: bool
    ) -> list[JobResult] | None:
        """Return stored results, or compute and store them while other processes wait for them."""
        if not self.is_used:
            return compute()
        results = self._read(key)
        if results is not None:
            return results
        with self._locked(key, waits=waits) as is_ours:
            if not is_ours:
                return None
            results = self._read(key)
            if results is None:
                begun_s = time.perf_counter()
                results = compute()
                self._write(key, results, time.perf_counter() - begun_s)
        return results

    def _key_of_jobs(self, jobs: Sequence[Job]) -> str:
        return self._key(
            "jobs",
            *(
                (
                    *(job.client, repr(job.work), self._digest(job.base).hex(), job.address),
                    *(job.learning_rate, job.most_steps),
                    *(self._digest_of_arrays(each) for each in (job.state, job.received)),
                )
                for job in jobs
            ),
        )

    def _key(self, *parts: Any) -> str:
        text = json.dumps(parts, default=_plain)
        return hashlib.sha256(self._context + text.encode()).hexdigest()

    def _digest(self, array: Parameters) -> bytes:
        for known, digest in self._known:
            if known is array:
                return digest
        digest = digest_of_array(array)
        self._known = [(array, digest), *self._known[:1]]
        return digest

    @staticmethod
    def _digest_of_arrays(arrays: Mapping[str, Any] | None) -> list[str] | None:
        if arrays is None:
            return None
        return [f"{name}:{digest_of_array(each).hex()}" for name, each in sorted(arrays.items())]

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.entry"

    def _read(self, key: str) -> list[JobResult] | None:
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, data = content[:_DIGEST_BYTE], content[_DIGEST_BYTE:]
        try:
            results = decoded(data) if hashlib.sha256(data).digest() == digest else None
        except (ValueError, KeyError, TypeError, SafetensorError):
            results = None
        if results is None:
            self.num_damaged += 1
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used last
        self.num_found += 1
        return results

    def _write(self, key: str, results: list[JobResult], seconds: float) -> None:
        self.num_computed += 1
        self._num_tried += 1
        data = encoded(results)
        if data is None:
            return
        if not self._is_worth and seconds < _READ_S + len(data) / _READ_BYTE_S:
            return
        self._num_kept += 1
        path = self._path(key)
        # A full disk costs the entry, not the run.
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            new, file = created_beside(path)
            try:
                with file:
                    file.write(hashlib.sha256(data).digest() + data)
                new.replace(path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
            self._count(len(data))

    def _count(self, num_byte: int) -> None:
        """Count what was written, and delete the entries used longest ago above the size."""
        if self._written_byte is None:
            self._written_byte = sum(size for _, size, _ in self._entries())
        else:
            self._written_byte += num_byte
        if self._written_byte <= self._most_byte:
            return
        entries = sorted(self._entries())  # other processes have written and deleted, too
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= _KEPT_SHARE * self._most_byte:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        self._written_byte = total

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yield time of last use, size and path of every entry, and of files that kills left."""
        for path in self._folder.glob("[0-9a-f][0-9a-f]/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                yield status.st_mtime, status.st_size, path

    @contextlib.contextmanager
    def _locked(self, key: str, *, waits: bool) -> Iterator[bool]:
        """Hold the lock of a key, which a process loses when it ends; False: another one has it."""
        lock = self._folder / f"{key[:2]}.lock"
        with contextlib.ExitStack() as held:
            is_ours = True
            if os.name == "posix":
                # Where locks are missing, as on some shared disks, chunks are computed twice.
                with contextlib.suppress(OSError):
                    file = held.enter_context(lock.open("ab"))
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
                    except BlockingIOError:
                        is_ours = False
            yield is_ours


def context_of(settings: Mapping[str, Any], data: TrainerData) -> bytes:
    """Return the digest of what the results follow from beside the jobs.

    `settings` are those of the training, with the numerical platform; samples are hashed by their
    content, the code by that of its files.
    """
    total = hashlib.sha256(json.dumps(settings, sort_keys=True, default=_plain).encode())
    total.update(_code_digest())
    total.update(json.dumps([torch.__version__, np.__version__]).encode())
    arrays = [data.train_labels, data.test_inputs, data.test_labels]
    if isinstance(data.train_inputs, ByteImages):
        images = data.train_inputs
        arrays += [images.pixels, np.array([images.mean, images.std])]
    else:
        arrays.append(data.train_inputs)
    for rows in (data.shares, data.evaluated or ()):
        arrays += [np.array([len(each) for each in rows]), *rows]
    if data.validation_rows is not None:
        arrays.append(data.validation_rows)
    for array in arrays:
        total.update(digest_of_array(array))
    return total.digest()


def digest_of_array(array: Any) -> bytes:
    """Return the SHA-256 of an array's type, shape and content."""
    plain = np.ascontiguousarray(array)
    total = hashlib.sha256(f"{plain.dtype.str}{plain.shape}".encode())
    total.update(plain.reshape(-1).view(np.uint8).data)
    return total.digest()


def encoded(results: Sequence[JobResult]) -> bytes | None:
    """Return results as bytes; None if they hold arrays of a type that cannot be written."""
    arrays: dict[str, Any] = {}
    rows = []
    for index, result in enumerate(results):
        row = result._asdict()
        for name in (*_ARRAYS, *_MAPPINGS):
            value = row.pop(name)
            if value is None:
                continue
            of_name = value if name in _MAPPINGS else {"": value}
            row[name] = list(of_name)
            for key, array in of_name.items():
                arrays[f"{index}.{name}.{key}"] = np.ascontiguousarray(array)
        rows.append(row)
    try:
        return safetensors.numpy.save(arrays, {"results": json.dumps(rows, default=_plain)})
    except (KeyError, TypeError, ValueError, SafetensorError):
        return None


def decoded(data: bytes) -> list[JobResult]:
    """Return the results of `encoded`; ValueError and others if the bytes are none."""
    header_byte = int.from_bytes(data[:8], "little")
    rows = json.loads(json.loads(data[8 : 8 + header_byte])["__metadata__"]["results"])
    arrays = safetensors.numpy.load(data)
    results = []
    for index, row in enumerate(rows):
        for name in (*_ARRAYS, *_MAPPINGS):
            if name in row:
                of_name = {key: np.array(arrays[f"{index}.{name}.{key}"]) for key in row[name]}
                row[name] = of_name if name in _MAPPINGS else of_name[""]
        if row["epoch_losses"] is not None:
            row["epoch_losses"] = tuple(row["epoch_losses"])
        results.append(JobResult(**row))
    return results


def _plain(value: Any) -> Any:
    """Return a number of NumPy, or a tuple, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


@cache
def _code_digest() -> bytes:
    """Return the SHA-256 of the files whose code computes results."""
    total = hashlib.sha256()
    for name in ("kernels", "learning", "rng", "counts"):
        spec = importlib.util.find_spec(f"fleetsim.{name}")
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
        for file in files:
            total.update(f"{name}{file.name}".encode() + file.read_bytes())
    return total.digest()
