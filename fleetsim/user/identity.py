"""Identity of a plug-in: its name, the SHA-256 of its file, and its version."""

import hashlib
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from fleetsim.errors import ScenarioError
from fleetsim.host import paths


def name_of(definition: Any) -> str:
    """Return `MODULE:NAME` of a class or function.

    >>> name_of(Path)
    'pathlib:Path'
    """
    return f"{definition.__module__}:{definition.__qualname__}"


def source_sha256(definition: Any) -> str | None:
    """Return the SHA-256 of the file that defines a class or function; None without such a file.

    `definition` may be None.
    """
    try:
        path = inspect.getsourcefile(definition)
    except (TypeError, OSError):
        # Raised for a class written in a notebook, at a prompt, or in C.
        return None
    if path is None or not paths.is_file(Path(path), ScenarioError):
        return None
    return hashlib.sha256(paths.read(Path(path), ScenarioError)).hexdigest()


def version(definition: Any) -> str | None:
    """Return the version of the module of a class or function, None if it has none.

    `definition` may be None. A version is `__version__` of the module or of its package, or the
    version of the distribution that installed it.
    """
    if definition is None:
        return None
    parts = str(definition.__module__).split(".")
    for length in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        declared = vars(module).get("__version__") if module is not None else None
        if isinstance(declared, str):
            return declared
    owners = sorted(set(_distributions().get(parts[0], [])))
    return metadata.version(owners[0]) if len(owners) == 1 else None


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Return the installed distributions by top-level module; half a second, once in a process."""
    return metadata.packages_distributions()
