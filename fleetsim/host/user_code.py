"""Calls of code of the user's own: faults in one line, and a process that is as it was before.

Every exception but KeyboardInterrupt, SystemExit included, becomes an error with the file and line
of the user's code. The code prints to stderr. `fleetsim.host.surroundings` restores the process.
"""

import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from fleetsim.errors import FleetsimError, PluginError
from fleetsim.host.surroundings import Surroundings, endings_raise

_PACKAGE = str(Path(__file__).parents[1])
_STANDARD_LIBRARY = str(Path(os.__file__).parent)
_INSTALLED = ("site-packages", "dist-packages")
_MADE_UP = ("<frozen ", "<__array_function__")
"""Names of files that do not exist, of Python's and NumPy's own code."""

_PRINTS_TO = ["stdout"]
"""Streams to which the code prints; the last one counts."""


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Let the code print to stderr within the block: stdout holds the output of a command."""
    _PRINTS_TO.append("stderr")
    try:
        yield
    finally:
        _PRINTS_TO.pop()


@contextmanager
def user_code(what: str, error: Callable[[str], Exception] = PluginError) -> Iterator[None]:
    """Call code of the user's own in the block; see the module.

    `what` names it in messages, as in `--plugin mine:Mine: select`. Errors of fleetsim, and those
    of the class `error`, pass.
    """
    before = Surroundings.now()
    sys.stdout = getattr(sys, _PRINTS_TO[-1])
    with_signals = True
    try:
        with user_faults(what, error), endings_raise:
            yield
    except KeyboardInterrupt:
        with_signals = False  # SIGTERM is ignored until all is saved
        raise
    finally:
        before.restore(what, error, with_signals=with_signals)


@contextmanager
def user_faults(what: str, error: Callable[[str], Exception] = PluginError) -> Iterator[None]:
    """Turn faults of the user's code into errors, and no more: for each step in an `user_code`."""
    try:
        yield
    except (KeyboardInterrupt, FleetsimError):
        raise
    except BaseException as fault:
        if isinstance(error, type) and isinstance(fault, error):
            raise
        raise error(f"{what} fails: {one_line(fault)}") from fault


def one_line(fault: BaseException) -> str:
    """Return a fault on one line, with the place of the user's code that it came from."""
    try:
        message = str(fault)
    except Exception:  # its own method may fail, too
        message = ""
    text = " ".join(f"{type(fault).__name__}: {message}".split()).removesuffix(":")
    if isinstance(fault, SyntaxError) and fault.filename is not None:
        return text  # names its place
    return text + "".join(f" ({file}, line {line})" for file, line in _place(fault))


def is_from_user_code(fault: BaseException) -> bool:
    """Return whether fleetsim, below the handler, had called code of the user's own."""
    files = [file for file, _ in _frames(fault)[1:]]
    ours = [place for place, file in enumerate(files) if file.startswith(_PACKAGE)]
    return any(not _is_foreign(file) for file in files[min(ours, default=len(files)) :])


def crash_file(fault: BaseException) -> Path:
    """Write a new temporary file for a bug report: versions, command line and traceback."""
    lines = [
        f"fleetsim {metadata.version('fleetsim')}, Python {platform.python_version()},"
        f" {platform.platform()}\n",
        f"{shlex.join(['fleetsim', *sys.argv[1:]])}\n\n",
        *traceback.format_exception(fault),
    ]
    descriptor, name = tempfile.mkstemp(prefix="fleetsim-crash-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(lines)
    return Path(name)


def _place(fault: BaseException) -> list[tuple[str, int]]:
    """Return the innermost place outside fleetsim and libraries, else an installed plug-in's."""
    frames = _frames(fault)
    user = [frame for frame in frames if not _is_foreign(frame[0])]
    outside = [frame for frame in frames if not frame[0].startswith(_PACKAGE)]
    return user[-1:] or outside[:1] or frames[-1:]


def _frames(fault: BaseException) -> list[tuple[str, int]]:
    """Return file and line of every call, the outermost first; their source is not read."""
    result, here = [], fault.__traceback__
    while here is not None:
        result.append((here.tb_frame.f_code.co_filename, here.tb_lineno))
        here = here.tb_next
    return result


def _is_foreign(file: str) -> bool:
    return file.startswith((_PACKAGE, _STANDARD_LIBRARY, *_MADE_UP)) or any(
        name in file for name in _INSTALLED
    )
