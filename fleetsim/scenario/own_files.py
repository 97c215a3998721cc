"""The user's own files and folders that a resolved scenario names, and their digests."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleetsim.record import atomic_files

HINT = "restore it, or name another file in the scenario"


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
    """Return the SHA-256 of a file, or of the names and contents of all files of a folder."""
    found = hashlib.sha256()
    with atomic_files.one_line_error(path, "cannot be read", HINT):
        for file in files_of(path):
            with file.open("rb") as opened:
                own = hashlib.file_digest(opened, "sha256")
            found.update(f"{relative_to(file, path)}\0{own.hexdigest()}\n".encode())
    return found.hexdigest()


def carried_digests(data: dict[str, Any]) -> dict[str, str]:
    """Return `digest` of the user's own devices, radios, traces and weights, by path."""
    return {str(path): digest(path) for path, travels in own_paths(data) if travels}


def files_of(path: Path) -> list[Path]:
    """Return the files of a folder, sorted; of a file, itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file())


def relative_to(file: Path, path: Path) -> str:
    """Return the path of a file in a folder; empty if it is the path itself."""
    return "" if file == path else file.relative_to(path).as_posix()
