"""A disk on which a process can be killed at any operation."""

import fcntl
import os
from collections.abc import Callable
from typing import Any

import pytest

OPERATIONS = ("fsync", "replace", "unlink", "mkdir")


class Kill(BaseException):
    """Stands for SIGKILL: nobody catches it."""


class Disk:
    """Counts what is done to files, and kills the run before or after the n-th operation.

    A kill before an fsync leaves half of the file, as the page cache may.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.num_done = 0
        self.log: list[str] = []
        self.kill_at: int | None = None
        self.is_before = True
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def arm(self, kill_at: int | None, *, is_before: bool = True) -> None:
        self.num_done, self.kill_at, self.is_before = 0, kill_at, is_before

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            is_now = self.num_done == self.kill_at
            self.num_done += 1
            self.log.append(name)
            if is_now and self.is_before:
                if name == "fsync" and os.fstat(args[0]).st_size and _is_writable(args[0]):
                    os.ftruncate(args[0], os.fstat(args[0]).st_size // 2)
                raise Kill
            # A real fsync costs milliseconds and changes nothing that the test can see.
            result = None if name == "fsync" else real(*args, **kwargs)
            if is_now:
                raise Kill
            return result

        return operation


def _is_writable(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
