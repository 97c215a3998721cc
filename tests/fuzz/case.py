"""One fuzzed case: files, links and pipes in an empty folder, and the commands that read them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PRECIOUS: Final = b"not to be overwritten\n"
"""Content of files beside a run folder to which links in it lead."""
_PRINTED: Final = re.compile(r"^printed\n|\x1b\[2J", re.MULTILINE)
"""Prints of the plug-ins, which commands pass on to stderr."""


@dataclass(frozen=True)
class Link:
    """Symbolic link, which may lead nowhere or in a circle."""

    target: str


class Pipe:
    """Named pipe, of which nobody writes the other end."""


@dataclass(frozen=True)
class Case:
    """Files, and the commands that run beside them in sequence."""

    commands: tuple[tuple[str, ...], ...]
    files: Mapping[str, bytes | Link | Pipe] = field(repr=False)
    untouched: tuple[str, ...] = ()
    """Names of files with `PRECIOUS` that no command may change."""
    user_file: str | None = None
    """Module with code of the user's, whose exceptions messages name."""
    endings: frozenset[int] = frozenset()
    """Exit codes that this code causes beside 0, 1 and 2; below zero: signals."""

    def write(self, folder: Path) -> None:
        """Write the files; their names were chosen here, so that none leaves the folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            match content:
                case bytes():
                    path.write_bytes(content)
                case Link(target):
                    path.symlink_to(target)
                case Pipe():
                    os.mkfifo(path)

    def touched(self, folder: Path) -> list[str]:
        """Describe the files that a command should not have changed."""
        return [
            f"{name} was changed"
            for name in self.untouched
            if not (folder / name).is_file() or (folder / name).read_bytes() != PRECIOUS
        ]

    def without_user_faults(self, text: str) -> str:
        """Remove what the user's code prints, and what messages tell of its exceptions."""
        if self.user_file is None:
            return text
        # An answer of another type fails in fleetsim's own line.
        place = rf"(?:{re.escape(self.user_file)}|fleetsim/[\w/]+\.py)"
        fault = rf"(?<=: )\w+(?:: [^\n]*)? \(\S*{place}, line \d+\)"
        return re.sub(fault, "a fault; mend it", _PRINTED.sub("", text))
