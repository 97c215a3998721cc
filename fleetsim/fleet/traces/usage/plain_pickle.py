"""Pickles of plain values (dicts, lists, text and numbers), read without execution.

`pickle.load` executes code that a file names. Here only opcodes that build plain containers are
followed, one by one: there is no code path from the file to a callable.
"""

import pickletools
from pathlib import Path
from typing import Any

from fleetsim.errors import DataError
from fleetsim.host import paths

_MOST_DEPTH = 16
_MOST_KEY_BIT = 64
_IGNORED = frozenset({"PROTO", "FRAME"})
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
    | {"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
    | {"STRING", "SHORT_BINSTRING", "BINSTRING"}
)
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})


def read_plain_pickle(path: Path, *, most_byte: int) -> object:
    """Return the object in a pickle of dicts, lists, text, numbers, booleans and None."""
    with paths.opened(path) as file:
        content = file.read(most_byte + 1)
    if len(content) > most_byte:
        raise DataError(f"{path}: is larger than {most_byte >> 20} MiB; split it")
    stack = _Stack()
    try:
        for opcode, argument, _ in pickletools.genops(content):
            stack.follow(opcode.name, argument)
        return stack.result()
    except _NotPlainError as fault:
        raise DataError(
            f"{path}: {fault}; only dicts, lists, text and numbers are read, nothing is executed"
        ) from fault
    except ValueError as fault:
        message = " ".join(str(fault).split())
        raise DataError(f"{path}: is not a whole pickle ({message}); fetch it again") from fault


class _NotPlainError(ValueError):
    """An opcode of the file is not plain."""


class _Stack:
    """Values so far, marks among them, and the memo."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._depth: dict[int, int] = {}
        """Depth of every container by its id; values and memo keep all containers alive."""

    def follow(self, name: str, argument: Any) -> None:
        """Apply one opcode."""
        if name in _VALUES:
            self._values.append(argument)
        elif name in _CONSTANTS:
            self._values.append(_CONSTANTS[name])
        elif name == "MARK":
            self._marks.append(len(self._values))
            if len(self._marks) > _MOST_DEPTH:
                raise _NotPlainError(f"is nested more than {_MOST_DEPTH} deep")
        elif name in _PUTS:
            self._memo[argument] = self._top()
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top()
        elif name in _GETS:
            if argument not in self._memo:
                raise _NotPlainError(f"refers to a value {argument} that it does not hold")
            self._values.append(self._memo[argument])
        elif name not in _IGNORED and name != "STOP":
            self._build(name)

    def result(self) -> object:
        """Return the one value that is left at the end."""
        if len(self._values) != 1 or self._marks:
            raise _NotPlainError("ends with more or less than one value")
        return self._values[0]

    def _build(self, name: str) -> None:
        match name:
            case "EMPTY_DICT":
                self._values.append({})
            case "EMPTY_LIST":
                self._values.append([])
            case "DICT":
                items = self._since_mark()
                self._values.append({})
                self._set_items(items)
            case "LIST":
                items = self._since_mark()
                self._values.append([])
                self._extend(items)
            case "APPEND":
                self._extend([self._pop()])
            case "APPENDS":
                self._extend(self._since_mark())
            case "SETITEM":
                value, key = self._pop(), self._pop()
                self._set_items([key, value])
            case "SETITEMS":
                self._set_items(self._since_mark())
            case _:
                raise _NotPlainError(f"asks for {name}")

    def _extend(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, list):
            raise _NotPlainError("appends to what is not a list")
        self._deepen(target, items)
        target.extend(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, dict) or len(items) % 2:
            raise _NotPlainError("sets items of what is not a dict")
        keys, values = items[::2], items[1::2]
        for key in keys:
            if not isinstance(key, int | float | str):
                raise _NotPlainError(f"has a {type(key).__name__} for a key")
            if isinstance(key, int) and key.bit_length() > _MOST_KEY_BIT:
                raise _NotPlainError(f"has a key of {key.bit_length()} bit")
        self._deepen(target, values)
        target.update(zip(keys, values, strict=True))

    def _deepen(self, target: Any, items: list[Any]) -> None:
        inner = (self._depth.get(id(i), 1) for i in items if isinstance(i, dict | list))
        depth = max(self._depth.get(id(target), 1), 1 + max(inner, default=0))
        if depth > _MOST_DEPTH:
            raise _NotPlainError(f"is nested more than {_MOST_DEPTH} deep")
        self._depth[id(target)] = depth

    def _top(self) -> Any:
        if not self._values or (self._marks and self._marks[-1] == len(self._values)):
            raise _NotPlainError("uses a value that is not there")
        return self._values[-1]

    def _pop(self) -> Any:
        value = self._top()
        self._values.pop()
        return value

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise _NotPlainError("lacks a mark")
        mark = self._marks.pop()
        items = self._values[mark:]
        del self._values[mark:]
        return items
