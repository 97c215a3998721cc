"""How calls and answers cross between the processes of a pool, over a socket.

A message is a pickle, and it comes only from processes that this program started. Large arrays
travel outside of it and are received where they stay; many small ones cross as one.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import socket
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import Job, JobResult
from fleetsim.learning.training.wakeup import Bell

_LARGE_BYTE = 65_536
"""Arrays from this size on are spared the copies of pickling; below, a call costs more."""
_VECTOR = JobResult._fields.index("vector")


class _Columns(NamedTuple):
    """Jobs or results, field by field: they cross in a fraction of the time of one by one."""

    kind: type[Job | JobResult]
    columns: list[Any]


def packed(part: Any) -> Any:
    """A part of a call or of an answer as it travels."""
    if not (isinstance(part, list) and part):
        return part
    columns: list[Any] = list(zip(*part, strict=True))
    if all(isinstance(one, JobResult) and _has_small_vector(one) for one in part):
        columns[_VECTOR] = np.stack(columns[_VECTOR])
    return _Columns(type(part[0]), columns)


def _has_small_vector(result: JobResult) -> bool:
    return result.vector is not None and result.vector.nbytes < _LARGE_BYTE


def unpacked(part: Any) -> Any:
    """A part as it was."""
    return list(map(part.kind, *part.columns)) if isinstance(part, _Columns) else part


def send(end: socket.socket, message: object, bell: Bell | None = None) -> None:
    """Send a message, its large arrays after it as they lie in memory.

    Args:
        end: where to.
        message: what.
        bell: on which the other side sleeps; None: it waits for the message itself.
    """
    views: list[memoryview] = []

    def stays_within(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _LARGE_BYTE:
            return True
        views.append(view)
        return False

    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5, buffer_callback=stays_within)
    pickler.dump(message)
    head = stream.getvalue()
    sizes = np.array([len(head), *(view.nbytes for view in views)], dtype=np.int64)
    start = np.int64(len(sizes)).tobytes() + sizes.tobytes() + head
    if bell is not None:
        # Whatever fits is there before anybody wakes, or the rest would wake him as data do.
        with contextlib.suppress(BlockingIOError):
            start = start[end.send(start, socket.MSG_DONTWAIT) :]
        bell.ring()
    end.sendall(start)
    for view in views:
        end.sendall(view)


def receive(end: socket.socket) -> Any:
    """The message of `send`; only ever from a process that this program started.

    Raises:
        EOFError: the other end is closed.
    """
    (num_sizes,) = _numbers(end, 1)
    head_byte, *array_bytes = _numbers(end, num_sizes)
    head, *buffers = [_bytes(end, size) for size in (head_byte, *array_bytes)]
    return pickle.loads(head.tobytes(), buffers=buffers)


def _numbers(end: socket.socket, num: int) -> list[int]:
    numbers: list[int] = _bytes(end, 8 * num).view(np.int64).tolist()
    return numbers


def _bytes(end: socket.socket, num_byte: int) -> NDArray[np.uint8]:
    """Exactly so many bytes, received into the array that holds them from then on."""
    array = np.empty(num_byte, dtype=np.uint8)
    rest = memoryview(array.data)
    while rest.nbytes:
        num_received = end.recv_into(rest)
        if num_received == 0:
            raise EOFError
        rest = rest[num_received:]
    return array
