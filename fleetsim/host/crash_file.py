"""File with the traceback of an unexpected exception, for a bug report."""

import os
import platform
import shlex
import sys
import tempfile
import traceback
from importlib import metadata
from pathlib import Path


def write(fault: BaseException) -> Path:
    """Write a new file in the temporary folder: versions, command line and traceback."""
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
