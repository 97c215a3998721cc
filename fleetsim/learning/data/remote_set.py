"""Records of published data sets: files, addresses, checksums, licence, citation; `sets.toml`."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

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


SETS: Mapping[str, RemoteSet] = {known.name: known for known in _sets()}
"""Every published set, by name."""
