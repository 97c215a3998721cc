"""Messages between the processes of a pool, over a socket.

A message is a pickle, and comes only from processes that this program started. Large arrays are
sent after the pickle and received in their final memory; many small ones are sent as one.
"""

import io
import pickle
import socket
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import Job, JobResult

_LARGE_BYTE = 65_536
"""Least size of an array that is sent outside the pickle; below, a further call costs more."""
_VECTOR = JobResult._fields.index("vector")


class _Columns(NamedTuple):
    """Jobs or results by field, which are pickled in a fraction of the time of a list."""

    kind: type[Job | JobResult]
    columns: list[Any]


def packed(element: Any) -> Any:
    """Return an element of a call or an answer in the form that is sent."""
    if not (isinstance(element, list) and element):
        return element
    columns: list[Any] = list(zip(*element, strict=True))
    # Results of jobs with small vectors.
    if isinstance(element[0], JobResult) and all(
        vector is not None and vector.nbytes < _LARGE_BYTE for vector in columns[_VECTOR]
    ):
        columns[_VECTOR] = np.stack(columns[_VECTOR])
    return _Columns(type(element[0]), columns)


def unpacked(element: Any) -> Any:
    """Return an element in its original form."""
    return list(map(element.kind, *element.columns)) if isinstance(element, _Columns) else element


def dumped(
    message: object, pickler: type[pickle.Pickler] = pickle.Pickler
) -> tuple[bytes, list[memoryview]]:
    """Return the pickle of a message without its large arrays, and those."""
    views: list[memoryview] = []

    def stays_within(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _LARGE_BYTE:
            return True
        views.append(view)
        return False

    stream = io.BytesIO()
    pickler(stream, protocol=5, buffer_callback=stays_within).dump(message)
    return stream.getvalue(), views


def send(end: socket.socket, message: object) -> None:
    """Send a message, followed by its large arrays."""
    head, views = dumped(message)
    sizes = np.array([len(head), *(view.nbytes for view in views)], dtype=np.int64)
    end.sendall(np.int64(len(sizes)).tobytes() + sizes.tobytes() + head)
    for view in views:
        end.sendall(view)


def receive(end: socket.socket) -> Any:
    """Return the next message; EOFError: the other end is closed."""
    (num_sizes,) = _bytes(end, 8).view(np.int64)
    sizes = _bytes(end, 8 * num_sizes).view(np.int64).tolist()
    head, *buffers = [_bytes(end, size) for size in sizes]
    return pickle.loads(head.tobytes(), buffers=buffers)


def _bytes(end: socket.socket, num_byte: int) -> NDArray[np.uint8]:
    """Receive exactly so many bytes into a new array."""
    array = np.empty(num_byte, dtype=np.uint8)
    rest = memoryview(array.data)
    while rest.nbytes:
        num_received = end.recv_into(rest)
        if num_received == 0:
            raise EOFError
        rest = rest[num_received:]
    return array
