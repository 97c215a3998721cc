"""New files with unpredictable names, which become other files by renaming.

A folder may come from a stranger, with links where files are going to be written. A file is
therefore never opened for writing under a name that may exist: it is created, exclusively.
"""

import os
import re
import secrets
from pathlib import Path
from typing import BinaryIO

_MOST_CHARACTERS = 50
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_FLAGS |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NAME = re.compile(r"\.(?P<name>.+?)\.(?:[0-9a-f]{16}\.)?tmp")
"""Name of a new file; older versions left out the random part."""


def created_beside(path: Path) -> tuple[Path, BinaryIO]:
    """Create a file in the folder of another one, to be renamed to it; return path and file."""
    name = f".{path.name[:_MOST_CHARACTERS]}.{secrets.token_hex(8)}.tmp"
    new = path.with_name(name)
    return new, os.fdopen(os.open(new, _FLAGS, 0o666), "wb")


def final_name(name: str) -> str | None:
    """Return the name that a file of `created_beside` was to get; None if it is no such file.

    >>> final_name(".manifest.json.0123456789abcdef.tmp"), final_name("manifest.json")
    ('manifest.json', None)
    """
    match = _NAME.fullmatch(name)
    return None if match is None else match["name"]
