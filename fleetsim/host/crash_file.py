"""File with the traceback of an unexpected exception, for a bug report."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from pathlib import Path

from fleetsim import __version__


def write(fault: BaseException) -> Path:
    """Write a new file in the temporary folder: versions, command line and traceback.

    Raises:
        OSError: it cannot be written.
    """
    lines = [
        f"fleetsim {__version__}, Python {platform.python_version()}, {platform.platform()}\n",
        f"{shlex.join(['fleetsim', *sys.argv[1:]])}\n\n",
        *traceback.format_exception(fault),
    ]
    descriptor, name = tempfile.mkstemp(prefix="fleetsim-crash-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(lines)
    return Path(name)
