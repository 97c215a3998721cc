"""Interface of the data sets that a scenario can name, and records of those that are published.

A new data set is a subclass of `DatasetKind` in a module of its own, and its name in
`fleetsim.learning.data.loading.DatasetSettings`. `published/sets.toml` has the files, addresses,
checksums, licences and citations of published sets.
"""

import re
import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from fleetsim.learning.data.dataset import Dataset
from fleetsim.settings import Settings

_ROW = re.compile(r"(\S+) ([0-9_]+)\s+([0-9a-f]{32,64})(?:\s+([0-9a-f]{64}))?")
_MD5_CHARACTERS = 32
_ARCHIVES = (".zip", ".tar.gz")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One gzipped file, or one archive, of a published set."""

    name: str
    """Published name; a folder may hold the file unpacked, without `.gz`."""
    num_byte: int
    sha256: str
    """Checksum of the file as published; empty: only its `md5` is known."""
    unpacked_sha256: str | None = None
    """Checksum of the file once gunzipped; None for an archive."""
    urls: tuple[str, ...] = ()
    """Official address, then mirrors."""
    is_extra: bool = False
    """True: only an option of the set needs it."""
    members: tuple[tuple[str, str], ...] = ()
    """Path and SHA-256 of the files in an archive that make up the set; a folder may hold them
    unpacked, at these paths or directly."""
    md5: str = ""
    """Checksum that finds damage, where nobody published a SHA-256."""

    @property
    def checksum(self) -> tuple[str, str]:
        """Algorithm and checksum of the file as published."""
        return ("sha256", self.sha256) if self.sha256 else ("md5", self.md5)


@dataclass(frozen=True, slots=True)
class RemoteSet:
    """A published data set; fleetsim contains none of its files."""

    name: str
    title: str
    files: tuple[RemoteFile, ...]
    licence: str
    citation: str
    by_hand: str = ""
    """Page from which a person gets the files, if they have no address for programs."""


def _files(
    addresses: Sequence[str],
    rows: str,
    *,
    is_extra: bool = False,
    members: Mapping[str, str] = MappingProxyType({}),
) -> tuple[RemoteFile, ...]:
    """Return the files of a table of `sets.toml`, which explains it."""
    return tuple(
        RemoteFile(
            name=name,
            num_byte=int(num_byte),
            sha256="" if len(checksum) == _MD5_CHARACTERS else checksum,
            unpacked_sha256=None if name.endswith(_ARCHIVES) else unpacked or checksum,
            urls=tuple(home + name if home.endswith("/") else home for home in addresses),
            is_extra=is_extra,
            members=tuple(members.items()),
            md5=checksum if len(checksum) == _MD5_CHARACTERS else "",
        )
        for name, num_byte, checksum, unpacked in _ROW.findall(rows)
    )


def _sets() -> Iterator[RemoteSet]:
    text = (resources.files("fleetsim.learning.data") / "published" / "sets.toml").read_text(
        "utf-8"
    )
    for name, data in tomllib.loads(text).items():
        files = [file for table in data.pop("files") for file in _files(**table)]
        yield RemoteSet(name=name, files=tuple(files), **data)


SETS: Mapping[str, RemoteSet] = dict(sorted((known.name, known) for known in _sets()))
"""Every set that can be fetched, by name."""


class DatasetKind(Settings):
    """Settings of one kind of data set, which load it.

    The sizes are those that are known before any sample is read. They are stated by the authors of
    the set, or by the headers of the user's own files. So a scenario with too many clients is
    refused without reading the data.
    """

    kind: str
    published: ClassVar[tuple[RemoteSet, ...]] = ()
    """Published sets that it is loaded from; `fleetsim data fetch` knows them by name."""
    how_to_get: ClassVar[str] = "built in"
    """Source of a set that is not fetched, for `fleetsim list datasets`."""
    has_user_files: ClassVar[bool] = False
    """True: the files are the user's own, whose form no checksum verifies."""
    imports_library: ClassVar[bool] = False
    """True: loading imports a library, so it does not run in a thread beside other imports."""

    training_samples: ClassVar[int | None] = None
    """Number of training samples; None: `num_training` or the files tell."""
    natural_clients: ClassVar[int | None] = None
    """Number of natural clients, 0 if it has none; None: `num_natural` or the files tell."""
    labels: ClassVar[int | None] = None
    """Number of labels; None: `num_labels` or the files tell."""

    @abstractmethod
    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the data set; reads local files only.

        Only a synthetic set depends on seed and number of clients. Files that are missing, broken
        or not the published ones are a `DataError`.
        """

    def num_training(self, user_folder: Path | None = None) -> int | None:
        """Return the number of training samples; None if only the files tell.

        Without the folder of the user's own data set its files are not read; a damaged one is a
        `DataError`.
        """
        return self.training_samples

    def num_natural(self, user_folder: Path | None = None) -> int | None:
        """Return the number of natural clients, 0 if it has none; None if only the files tell.

        Arguments and errors are those of `num_training`.
        """
        return self.natural_clients

    def num_labels(self) -> int | None:
        """Return the number of labels of the training samples; None if only the files tell."""
        return self.labels

    def without_clients(self, user_folder: Path | None = None) -> str:
        """Return the error message for the partition `natural` of a set without natural clients."""
        return f"{self.kind} has no clients of its own; choose iid, dirichlet or shards"
