"""Parts of messages to other hosts, named by their content, and those that a process holds.

A large array that several messages have in common is left out of them and sent once. Its name is
the SHA-256 of its bytes, so that a part is found again in whatever message or run it occurs.
Messages are pickles and come from the client of a cluster alone, which may execute code there.
"""

import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_BYTE = 65_536
"""Least size of an array that is sent as a part."""
PIECE_BYTE = 1 << 26
"""Largest piece of a part that is sent at a time: messages of Dask end at 2 GiB."""
SPARE_BYTE = 1 << 28
"""Most bytes of parts that a process holds without need."""


def digest_of(content: Any) -> str:
    """Return the SHA-256 of an array [...] or bytes."""
    return hashlib.sha256(np.frombuffer(content, np.uint8).data).hexdigest()


def pack(
    value: Any, name_of: Callable[[NDArray[Any]], str | None]
) -> tuple[bytes, dict[str, NDArray[Any]]]:
    """Return a value as bytes, without the large arrays to which `name_of` gives names.

    Objects that no module defines, such as those of a notebook, travel with their code.
    """
    from cloudpickle import CloudPickler  # noqa: PLC0415 - it comes with an extra

    parts: dict[str, NDArray[Any]] = {}

    class Pickler(CloudPickler):  # type: ignore[misc]
        def persistent_id(self, element: Any) -> tuple[str, str, tuple[int, ...]] | None:
            if not is_large(element):
                return None
            name = name_of(element)
            if name is None:
                return None
            parts[name] = element
            return name, element.dtype.str, element.shape

    stream = io.BytesIO()
    Pickler(stream, protocol=5).dump(value)
    return stream.getvalue(), parts


def is_large(element: Any) -> bool:
    """Return whether an object is an array of plain numbers that may be a part."""
    return (
        type(element) is np.ndarray
        and element.nbytes >= LEAST_BYTE
        and element.dtype.kind in "biuf"
        and element.flags.c_contiguous
    )


def unpack(data: bytes, parts: Mapping[str, bytearray]) -> Any:
    """Return the value of `pack`; its large arrays are views of the parts."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, name: tuple[str, str, tuple[int, ...]]) -> NDArray[Any]:
            digest, dtype, shape = name
            return np.frombuffer(parts[digest], dtype).reshape(shape)

    return Unpickler(io.BytesIO(data)).load()


class HeldParts:
    """Parts that a process holds; those without need are dropped above a size, oldest first."""

    def __init__(self, spare_byte: int = SPARE_BYTE) -> None:
        self._whole: OrderedDict[str, bytearray] = OrderedDict()
        self._arriving: dict[str, bytearray] = {}
        self._spare_byte = spare_byte

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Return the names of parts that are not held."""
        return [name for name in names if name not in self._whole]

    def receive(
        self, name: str, num_byte: int, start: int, piece: bytes, needed: Collection[str]
    ) -> None:
        """Take a piece of a part of so many bytes; `needed` are the parts that must stay."""
        if name in self._whole:
            return  # another client has sent it meanwhile
        part = self._arriving.setdefault(name, bytearray(num_byte))
        part[start : start + len(piece)] = piece
        if start + len(piece) < num_byte:
            return
        del self._arriving[name]
        if digest_of(part) == name:  # else pieces were lost with a connection: it is sent again
            self._whole[name] = part
        self._drop(needed)

    def _drop(self, needed: Collection[str]) -> None:
        spare = {name: len(part) for name, part in self._whole.items() if name not in needed}
        rest_byte = sum(spare.values())
        for name, num_byte in spare.items():
            if rest_byte <= self._spare_byte:
                return
            rest_byte -= num_byte
            del self._whole[name]

    def take(self, names: Iterable[str]) -> dict[str, bytearray] | None:
        """Return parts, which are now the newest ones; None: some are not held."""
        try:
            parts = {name: self._whole[name] for name in names}
            for name in parts:
                self._whole.move_to_end(name)
        except KeyError:  # a thread that receives may drop some at any moment
            return None
        return parts
