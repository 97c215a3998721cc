"""Processes that begin anew and do not import the program that started them.

Python's spawned processes import the main module of their parent, and so carry out a script again
that starts them at its top level. These leave it out: what they get may not be defined in it.
"""

import sys
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - Python's name
        # The path of the main module is read from sys.modules while the process is started.
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class FreshContext(SpawnContext):
    """Context of processes that do not import the caller's main module."""

    Process = _Process
