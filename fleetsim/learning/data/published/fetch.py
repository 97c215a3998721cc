"""Where published data sets come from, where they lie here, and that they are the right ones.

A set is looked for in a folder that the scenario names; else below `$FLEETSIM_DATA`; else in the
platform's cache folder. Every file is checked against its published SHA-256 wherever it was found.
Nothing is ever downloaded unless `fetch` is called.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pooch
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.published.remote_set import RemoteFile, RemoteSet
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

_CHUNK_BYTE = 1 << 16


def named_folder(folder: str | None) -> Path | None:
    """Return the folder that a scenario names, with `~` expanded; None if it names none."""
    if folder is None:
        return None
    return paths.expanded(folder, ScenarioError, key="task.dataset.folder")


def cache_folder(name: str) -> Path:
    """Folder of a set in the platform's cache; `$XDG_CACHE_HOME` moves it on Linux."""
    return Path(pooch.os_cache("fleetsim")) / name


def own_folders(name: str) -> list[Path]:
    """Folders of a set below `$FLEETSIM_DATA`, first to last; none if that is unset or empty."""
    home = os.environ.get("FLEETSIM_DATA")
    return [Path(home) / name, Path(home) / "data" / name] if home else []


def find_files(
    name: str,
    folder: Path | None = None,
    *,
    extras: Collection[str] = (),
    registry: Mapping[str, RemoteSet],
) -> dict[str, Path]:
    """Verified local files of a set by their published names; downloads nothing.

    The first folder that holds all of them is taken: `folder` alone if it is given, else below
    `$FLEETSIM_DATA`, else the cache. A file may lie there as published or unpacked; an unpacked
    archive is given as its members, by their paths in it.

    Args:
        name: a key of the registry.
        folder: the only folder to look in.
        extras: names of extra files that are wanted too.
        registry: the sets that are known, by name.

    Raises:
        DataError: unknown set, no folder holds all files, or a file is not the published one.
    """
    known = _registered(name, registry)
    wanted = [file for file in known.files if not file.is_extra or file.name in extras]
    homes = [folder] if folder is not None else [*own_folders(name), cache_folder(name)]
    for home in homes:
        verified = _verified(name, home, wanted)
        if verified is not None:
            return verified
    looked = "; ".join(_absence(home, wanted) for home in homes)
    if folder is None:
        way_out = f"run `fleetsim data fetch {name}`, or set FLEETSIM_DATA to a folder with {name}/"
    else:
        way_out = "put the published files there, or leave `folder` out"
    raise DataError(f"data set {name} not found: {looked}; {way_out}")


def fetch(name: str, *, progress: bool, registry: Mapping[str, RemoteSet]) -> Path:
    """Folder that holds a set, extra files included; downloads what is missing into the cache.

    A complete folder below `$FLEETSIM_DATA` is verified and taken as it is. Otherwise every file
    that the cache lacks, or holds with another checksum, is downloaded under a temporary name,
    verified, and only then renamed: an interruption leaves no half file under its name.

    Args:
        name: a key of the registry.
        progress: whether to draw a bar per file on stderr.
        registry: the sets that are known, by name.

    Raises:
        DataError: unknown set, a file of one's own is not the published one, the cache cannot be
            written, or no address gives a file with the published checksum.
    """
    known = _registered(name, registry)
    for home in own_folders(name):
        if _verified(name, home, known.files) is not None:
            return home
    folder = cache_folder(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be made ({error.strerror}); set XDG_CACHE_HOME to a folder that "
            f"can be written, or FLEETSIM_DATA to one that holds {name}/"
        ) from error
    pooch.get_logger().setLevel("WARNING")  # the bars say the same
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not progress,
    )
    with bars:
        for file in known.files:
            _download(name, file, folder, bars)
    return folder


@dataclass(slots=True)
class _Bar:
    """What pooch asks of a progress bar (total, update, reset, close), drawn by rich."""

    bars: Progress
    task: TaskID
    total: float = 0.0
    """Bytes to come, set by pooch; 0 where the server does not say."""

    def update(self, num_byte: float) -> None:
        """Move on by so many bytes."""
        self.bars.update(self.task, total=self.total or None, advance=num_byte)

    def reset(self) -> None:
        """Go back to the start, as pooch does before it fills the bar."""
        self.bars.update(self.task, completed=0)

    def close(self) -> None:
        """Leave the bar as it is on the screen."""


def _download(name: str, file: RemoteFile, folder: Path, bars: Progress) -> None:
    """Put one verified file into the folder, from the first address that gives it."""
    paths.kind_of(folder / file.name)  # a pipe there would block
    task = bars.add_task(file.name, total=file.num_byte)

    def downloader(url: str, temporary: str, _pooch: object) -> None:
        bars.update(task, completed=0)
        download = pooch.HTTPDownloader(progressbar=_Bar(bars, task), chunk_size=_CHUNK_BYTE)
        download(url, temporary, None)
        found = _sha256(Path(temporary))
        if found != file.sha256:
            raise DataError(
                f"{url} gave {Path(temporary).stat().st_size} bytes with SHA-256 {found}, "
                f"expected {file.num_byte} bytes with {file.sha256}"
            )

    faults = []
    for url in file.urls:
        try:
            pooch.retrieve(
                url,
                known_hash=f"sha256:{file.sha256}",
                fname=file.name,
                path=folder,
                downloader=downloader,
            )
        except DataError as error:
            faults.append(str(error))
        except OSError as error:  # every exception of requests is one
            faults.append(f"{url} failed: {_root_cause(error)}")
        else:
            bars.update(task, completed=file.num_byte)
            return
    raise DataError(
        f"data set {name}: {file.name} could not be downloaded: {'; '.join(faults)}; try again, "
        f"or download it by hand into {folder}"
    )


def _root_cause(error: BaseException) -> str:
    """One line of the first exception in a chain: sockets say it shorter than their wrappers."""
    while error.__context__ is not None:
        error = error.__context__
    return " ".join(f"{type(error).__name__}: {error}".split())


def _registered(name: str, registry: Mapping[str, RemoteSet]) -> RemoteSet:
    if name not in registry:
        raise DataError(
            f"data set {quoted(name)} cannot be fetched; known are {', '.join(registry)}"
            f"{did_you_mean(name, registry)}"
        )
    return registry[name]


def _verified(name: str, home: Path, files: Collection[RemoteFile]) -> dict[str, Path] | None:
    """The files in a folder, each with its published checksum; None if it lacks one."""
    found = [_present(home, file) for file in files]
    if not all(found):
        return None
    for file, places in zip(files, found, strict=True):
        for key, path in places.items():
            _verify(name, file, key, path)
    return {key: path for places in found for key, path in places.items()}


def _present(home: Path, file: RemoteFile) -> dict[str, Path]:
    """Where a file lies in a folder, as published or else unpacked; empty if it does not."""
    published, unpacked = home / file.name, home / file.unpacked_name
    if paths.is_file(published):
        return {file.name: published}
    if not file.members:
        return {file.name: unpacked} if paths.is_file(unpacked) else {}
    members = {}
    for member, _ in file.members:
        for path in (home / PurePosixPath(member).name, home / member):
            if paths.is_file(path):
                members[member] = path
    return members if len(members) == len(file.members) else {}


def _absence(home: Path, files: Collection[RemoteFile]) -> str:
    """Why a folder will not do."""
    if not paths.is_folder(home):
        return f"{home} is no folder"
    return f"{home} lacks {', '.join(file.name for file in files if not _present(home, file))}"


def _verify(name: str, file: RemoteFile, key: str, path: Path) -> None:
    """Check one local file against its published checksum."""
    is_published = path.name == file.name
    expected = file.sha256 if is_published else dict(file.members).get(key, file.unpacked_sha256)
    found = _sha256(path)
    if found != expected:
        raise DataError(
            f"{path}: not the published file of {name}: expected SHA-256 {expected}, found "
            f"{found}; remove it and run `fleetsim data fetch {name}`"
        )


def _sha256(path: Path) -> str:
    with paths.opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
