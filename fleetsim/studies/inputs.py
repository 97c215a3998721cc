"""The user's own files that a scenario names: their digests, and their way to another machine.

A resolved scenario names bundled files by name and the user's own by absolute path. Devices,
radios, traces and weights of selectors are small and travel with a run. A data set's folder stays:
the other machine must have the same files at the same place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetsim.errors import DataError
from fleetsim.record import atomic_files

_MOST_BYTE = 64 << 20
_WAY_OUT = "restore it, or name another file in the scenario"


@dataclass(frozen=True, slots=True)
class Input:
    """File or folder of the user's own, with its content if it travels."""

    path: str
    """Absolute path on the machine that began the study."""
    digest: str
    content: tuple[tuple[str, bytes], ...] | None
    """Relative paths and bytes of its files, one with an empty path for a file; None: it does not
    travel."""


def digests(data: dict[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of the user's own files and folders in a resolved scenario, by path."""
    return {str(path): digest(path) for path, _ in own_paths(data)}


def inputs(data: dict[str, Any]) -> tuple[Input, ...]:
    """Return the user's own files and folders in a resolved scenario.

    Raises:
        DataError: one cannot be read, or is too large to travel.
    """
    return tuple(
        Input(str(path), digest(path), _content(path) if travels else None)
        for path, travels in own_paths(data)
    )


def own_paths(data: dict[str, Any]) -> Iterator[tuple[Path, bool]]:
    """Yield absolute paths in a resolved scenario, each once, and whether the file may travel."""
    fleet, dataset = data["fleet"], data["task"]["dataset"]
    channel, weights = fleet["channel"], data["server"]["selector"].get("weights")
    names = [
        *fleet["devices"],
        *(channel[key] for key in ("unmetered_radio", "metered_radio")),
        channel.get("trace"),
        fleet["usage"]["trace"],
        weights if isinstance(weights, str) else None,
    ]
    for name in dict.fromkeys(names):
        if name is not None and Path(name).is_absolute():
            yield Path(name), True
    folder = dataset.get("folder")
    if folder is not None and Path(folder).exists():
        yield Path(folder), False


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files of a folder.

    Raises:
        DataError: it cannot be read.
    """
    found = hashlib.sha256()
    with atomic_files.one_line_error(path, "cannot be read", _WAY_OUT):
        for file in _files(path):
            with file.open("rb") as opened:
                own = hashlib.file_digest(opened, "sha256")
            found.update(f"{_relative(file, path)}\0{own.hexdigest()}\n".encode())
    return found.hexdigest()


def _content(path: Path) -> tuple[tuple[str, bytes], ...]:
    with atomic_files.one_line_error(path, "cannot be read", _WAY_OUT):
        files = _files(path)
        if sum(file.stat().st_size for file in files) > _MOST_BYTE:
            raise DataError(
                f"{path}: is larger than 64 MiB and cannot travel to other machines; put it there"
                " at the same place, or name a smaller one"
            )
        return tuple((_relative(file, path), file.read_bytes()) for file in files)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file())


def _relative(file: Path, path: Path) -> str:
    return "" if file == path else file.relative_to(path).as_posix()


def placed(data: dict[str, Any], needed: tuple[Input, ...], home: Path) -> dict[str, Any]:
    """Return a resolved scenario whose files are on this machine; files that travel go to `home`.

    A file that is at its place with the same content is used where it is.

    Raises:
        DataError: a folder that does not travel is missing here, or has other content.
    """
    moved: dict[str, str] = {}
    for number, each in enumerate(needed):
        path = Path(each.path)
        if path.exists() and digest(path) == each.digest:
            continue
        if each.content is None:
            raise DataError(
                f"{path}: is not on this machine, or has other content than where the study began;"
                " copy the folder to the same place"
            )
        # Device profiles are named after their files.
        target = home / str(number) / path.name
        for relative, content in each.content:
            file = target / relative if relative else target
            if not file.resolve().is_relative_to(home.resolve()):
                raise DataError(f"{path}: holds a file outside of itself, {relative}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        moved[each.path] = str(target)
    renamed: dict[str, Any] = _renamed(data, moved)
    return renamed


def _renamed(value: Any, moved: dict[str, str]) -> Any:
    match value:
        case dict():
            return {moved.get(key, key): _renamed(item, moved) for key, item in value.items()}
        case list():
            return [_renamed(item, moved) for item in value]
        case str():
            return moved.get(value, value)
        case _:
            return value
