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


def name_of(found: Any) -> str:
    """Return `MODULE:NAME` of a class or function.

    >>> name_of(Path)
    'pathlib:Path'
    """
    return f"{found.__module__}:{found.__qualname__}"


def source_sha256(found: Any) -> str | None:
    """Return the SHA-256 of the file that defines a class or function; None without such a file.

    `found` may be None.
    """
    try:
        path = inspect.getsourcefile(found)
    except (TypeError, OSError):
        # Raised for a class written in a notebook, at a prompt, or in C.
        return None
    if path is None or not paths.is_file(Path(path), ScenarioError):
        return None
    return hashlib.sha256(paths.read(Path(path), ScenarioError)).hexdigest()


def version(found: Any) -> str | None:
    """Return the version of the module of a class or function, None if it has none.

    `found` may be None. A version is `__version__` of the module or of its package, or the version
    of the distribution that installed it.
    """
    if found is None:
        return None
    parts = str(found.__module__).split(".")
    for length in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        said = vars(module).get("__version__") if module is not None else None
        if isinstance(said, str):
            return said
    owners = sorted(set(_distributions().get(parts[0], [])))
    return metadata.version(owners[0]) if len(owners) == 1 else None


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Return the installed distributions by top-level module; half a second, once in a process."""
    return metadata.packages_distributions()
