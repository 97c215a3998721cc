"""The user's own files that a scenario names: their digests, and their way to another machine.

A resolved scenario names the user's own files by absolute path. All but the folders of data sets,
which the other machine must have at the same place, are small and travel with a run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetsim.errors import DataError
from fleetsim.record import atomic_files
from fleetsim.scenario.named_files import HINT, digest, files_of, relative_to, user_paths

_MOST_BYTE = 64 << 20


@dataclass(frozen=True, slots=True)
class Input:
    """File or folder of the user's own, with its content if it travels."""

    path: str
    """Absolute path on the machine that began the study."""
    digest: str
    content: tuple[tuple[str, bytes], ...] | None
    """Relative paths and bytes of its files, one with an empty path for a file; None: it does not
    travel."""


def inputs(data: dict[str, Any]) -> tuple[Input, ...]:
    """Return the user's own files and folders in a resolved scenario."""
    return tuple(
        Input(str(path), digest(path), _content(path) if travels else None)
        for path, travels in user_paths(data)
    )


def _content(path: Path) -> tuple[tuple[str, bytes], ...]:
    with atomic_files.one_line_error(path, "cannot be read", HINT):
        files = files_of(path)
        if sum(file.stat().st_size for file in files) > _MOST_BYTE:
            raise DataError(
                f"{path}: is larger than 64 MiB and cannot travel to other machines; put it there"
                " at the same place, or name a smaller one"
            )
        return tuple((relative_to(file, path), file.read_bytes()) for file in files)


def placed(data: dict[str, Any], needed: tuple[Input, ...], home: Path) -> dict[str, Any]:
    """Return a resolved scenario whose files are on this machine; files that travel go to `home`.

    A file that is at its place with the same content is used where it is.
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
