"""Records whose fields are all arrays with one row for each client, task or device."""

from typing import Self

from fleetsim.contracts import BoolArray, IntArray


class Columns:
    """Base of such records, which are dataclasses with slots."""

    __slots__ = ()

    def take(self, rows: IntArray | BoolArray) -> Self:
        """Return a copy of some rows."""
        names: tuple[str, ...] = self.__slots__
        return type(self)(*(getattr(self, name)[rows] for name in names))
