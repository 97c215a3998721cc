"""Published data sets: download, local folders, and verification of the files.

A set is searched in a folder that the scenario names, else below `$FLEETSIM_DATA`, else in the
platform's cache folder. Every file is checked against its published SHA-256, or its MD5 where that
is all there is. Only `fetch` downloads files.
"""

import hashlib
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath

import platformdirs
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.host.plain_console import PlainConsole
from fleetsim.learning.data.dataset_kind import SETS, RemoteFile, RemoteSet
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

_CHUNK_BYTE = 1 << 16
_TIMEOUT_S = 30.0
"""Longest silence of a server."""
_GRACE_S = 120.0
_LEAST_BYTE_PER_S = 20e3
"""Mean rate of a download, after the grace, below which it is given up."""
_NAMES = {"sha256": "SHA-256", "md5": "MD5"}


def named_folder(folder: str | None) -> Path | None:
    """Return the folder that a scenario names, with `~` expanded; None if it names none."""
    if folder is None:
        return None
    return paths.expanded(folder, ScenarioError, key="task.dataset.folder")


def cache_folder(name: str) -> Path:
    """Return the folder of a set in the platform's cache; `$XDG_CACHE_HOME` moves it on Linux."""
    return platformdirs.user_cache_path("fleetsim") / name


def data_folders(name: str) -> list[Path]:
    """Return the folders of a set below `$FLEETSIM_DATA`, in order; none if that is not set."""
    home = os.environ.get("FLEETSIM_DATA")
    return [Path(home) / name, Path(home) / "data" / name] if home else []


def search_folders(name: str, folder: Path | None) -> list[Path]:
    """Return the folders in which a set is searched, in order; `folder` alone if it is given."""
    return [*data_folders(name), cache_folder(name)] if folder is None else [folder]


def unpacked_home(
    known: RemoteSet, folder: Path | None, *, archive: str, top: str, holds: str
) -> Path | None:
    """Return the folder of a set whose archive was unpacked; None if a verified form comes first.

    A folder's verified form is its archive, or all members whose checksums are known; it
    comes before unpacked files without checksums in the same folder.

    Unpacking may make the outermost folder `top`, and the set is known by the folder `holds` in it.
    Only `folder` is searched, if it is given.
    """
    packed = next(file for file in known.files if file.name == archive)
    for home in search_folders(known.name, folder):
        if _present(home, packed):
            return None
        for place in (home, home / top):
            if paths.is_folder(place / holds):
                return place
    return None


def find_files(
    known: RemoteSet, folder: Path | None = None, *, extras: Collection[str] = ()
) -> dict[str, Path]:
    """Return the verified local files of a set by their published names; downloads nothing.

    They are those of the first folder that contains all of them. A file may lie there as published
    or unpacked; an unpacked archive is given as its members, by their paths in it.

    Only `folder` is searched, if it is given. `extras` are the names of extra files that are needed
    too.
    """
    name = known.name
    needed = [file for file in known.files if not file.is_extra or file.name in extras]
    homes = search_folders(name, folder)
    for home in homes:
        verified = _verified(name, home, needed)
        if verified is not None:
            return verified
    searched = "; ".join(_absence(home, needed) for home in homes)
    if folder is None:
        hint = f"run `fleetsim data fetch {name}`, or set FLEETSIM_DATA to a folder with {name}/"
    else:
        hint = "put the published files there, or leave `folder` out"
    raise DataError(f"data set {name} not found: {searched}; {hint}")


def fetch(name: str, *, progress: bool, registry: Mapping[str, RemoteSet] = SETS) -> Path:
    """Return the folder of a set with extra files; downloads missing files into the cache.

    A set that only a person can get is verified where it lies.

    A complete folder below `$FLEETSIM_DATA` is verified and returned. Otherwise every file that the
    cache lacks, or has with another checksum, is downloaded under a temporary name, verified and
    then renamed, so that an interruption leaves no half file under its name.
    """
    if name not in registry:
        raise DataError(
            f"data set {quoted(name)} cannot be fetched; known are {', '.join(registry)}"
            f"{did_you_mean(name, registry)}"
        )
    known = registry[name]
    for home in data_folders(name):
        if _verified(name, home, known.files) is not None:
            return home
    folder = cache_folder(name)
    if known.by_hand:
        if _verified(name, folder, known.files) is not None:
            return folder
        names = ", ".join(file.name for file in known.files)
        raise DataError(
            f"data set {name}: its files have no address for programs; get {names} from"
            f" {known.by_hand} and put them into {folder}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be made ({error.strerror}); set XDG_CACHE_HOME to a folder that "
            f"can be written, or FLEETSIM_DATA to one that holds {name}/"
        ) from error
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = PlainConsole(stderr=True)
    with Progress("{task.description}", *columns, console=console, disable=not progress) as bars:
        for file in known.files:
            _download(name, file, folder, bars)
    return folder


def folder_with(known: RemoteSet) -> Path | None:
    """Return the first folder that has the files of a set without extras, not verified."""
    needed = [file for file in known.files if not file.is_extra]
    for home in search_folders(known.name, None):
        if all(_present(home, file) for file in needed):
            return home
    return None


def _download(name: str, file: RemoteFile, folder: Path, bars: Progress) -> None:
    """Download one verified file into the folder, from the first address that gives it."""
    # Here, because in a notebook its import of tqdm warns of missing widgets. Scenarios that read
    # no such set wait for none of these.
    import pooch  # noqa: PLC0415
    import urllib3  # noqa: PLC0415

    pooch.get_logger().setLevel("WARNING")  # the bars show the same
    paths.kind_of(folder / file.name)  # a pipe there would block
    task = bars.add_task(file.name, total=file.num_byte)
    algorithm, expected = file.checksum

    def downloader(url: str, temporary: str, _pooch: object) -> None:
        bars.update(task, completed=0)
        _receive(url, file, Path(temporary), lambda num_byte: bars.advance(task, num_byte))
        actual = _digest(Path(temporary), algorithm)
        if actual != expected:
            size = Path(temporary).stat().st_size
            raise DataError(
                f"{url} gave {size} bytes with {_NAMES[algorithm]} {actual}, expected"
                f" {file.num_byte} bytes with {expected}"
            )

    faults = []
    for url in file.urls:
        try:
            pooch.retrieve(
                url,
                known_hash=f"{algorithm}:{expected}",
                fname=file.name,
                path=folder,
                downloader=downloader,
            )
        except DataError as error:
            faults.append(str(error))
        # Every exception of requests is an OSError.
        except (OSError, urllib3.exceptions.HTTPError) as error:
            faults.append(f"{url} failed: {_root_cause(error)}")
        else:
            bars.update(task, completed=file.num_byte)
            return
    raise DataError(
        f"data set {name}: {file.name} could not be downloaded: {'; '.join(faults)}; try again, "
        f"or download it by hand into {folder}"
    )


def _receive(url: str, file: RemoteFile, path: Path, on_chunk: Callable[[int], None]) -> None:
    """Write what an address gives to a path, up to the size of the published file."""
    import requests  # noqa: PLC0415

    left_byte = file.num_byte
    ends_at_s = time.monotonic() + _GRACE_S + file.num_byte / _LEAST_BYTE_PER_S
    # A file that the server packed for the transfer would be another one.
    headers = {"Accept-Encoding": "identity"}
    with (
        requests.get(url, stream=True, timeout=_TIMEOUT_S, headers=headers) as answer,
        path.open("wb") as written,
    ):
        answer.raise_for_status()
        # What has arrived, not a whole chunk: a server that sends a byte at a time would hold it.
        while chunk := answer.raw.read1(_CHUNK_BYTE):
            left_byte -= len(chunk)
            if left_byte < 0:
                raise DataError(f"{url} gave more than the {file.num_byte} bytes of this file")
            if time.monotonic() > ends_at_s:
                rate = f"{_LEAST_BYTE_PER_S / 1000:g} kB/s"
                raise DataError(f"{url} was given up: it was slower than {rate}")
            written.write(chunk)
            on_chunk(len(chunk))


def _root_cause(error: BaseException) -> str:
    """Return one line on the first exception in a chain, which is shorter than its wrappers'."""
    while error.__context__ is not None:
        error = error.__context__
    return " ".join(f"{type(error).__name__}: {error}".split())


def _verified(name: str, home: Path, files: Collection[RemoteFile]) -> dict[str, Path] | None:
    """Return the files in a folder, each with its published checksum; None if it lacks one."""
    places_of = [_present(home, file) for file in files]
    if not all(places_of):
        return None
    for file, places in zip(files, places_of, strict=True):
        for key, path in places.items():
            algorithm, expected = file.checksum
            if path.name != file.name:
                algorithm = "sha256"
                expected = dict(file.members).get(key, file.unpacked_sha256 or "")
            actual = _digest(path, algorithm)
            if actual != expected:
                raise DataError(
                    f"{path}: not the published file of {name}: expected {_NAMES[algorithm]}"
                    f" {expected}, found {actual}; remove it and run `fleetsim data fetch {name}`"
                )
    return {key: path for places in places_of for key, path in places.items()}


def _present(home: Path, file: RemoteFile) -> dict[str, Path]:
    """Return the paths of a file in a folder, as published or else unpacked; empty if missing."""
    published, unpacked = home / file.name, home / file.name.removesuffix(".gz")
    if paths.is_file(published):
        return {file.name: published}
    if not file.members:
        known = file.unpacked_sha256 is not None
        return {file.name: unpacked} if known and paths.is_file(unpacked) else {}
    members = {}
    for member, _ in file.members:
        for path in (home / PurePosixPath(member).name, home / member):
            if paths.is_file(path):
                members[member] = path
    return members if len(members) == len(file.members) else {}


def _absence(home: Path, files: Collection[RemoteFile]) -> str:
    """Return the reason why a folder cannot be used."""
    if not paths.is_folder(home):
        return f"{home} is no folder"
    return f"{home} lacks {', '.join(file.name for file in files if not _present(home, file))}"


def _digest(path: Path, algorithm: str) -> str:
    with paths.opened(path) as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
