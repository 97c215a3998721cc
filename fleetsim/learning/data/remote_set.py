"""Records of a published data set: files, addresses, checksums, licence, citation.

Each set is described next to its reader, in the module of its settings.
"""

import re
from dataclasses import dataclass

_ROW = re.compile(r"(\S+) ([0-9_]+)\s+([0-9a-f]{64})(?:\s+([0-9a-f]{64}))?")


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


def remote_files(
    addresses: tuple[str, ...], table: str, *, is_extra: bool = False
) -> tuple[RemoteFile, ...]:
    """Return files that are all found at each of some addresses, official first.

    The table has for each file its name, bytes, SHA-256, and if it is gzipped the SHA-256 unpacked.
    """
    return tuple(
        RemoteFile(
            name=name,
            num_byte=int(num_byte),
            sha256=sha256,
            unpacked_sha256=unpacked or sha256,
            urls=tuple(home + name for home in addresses),
            is_extra=is_extra,
        )
        for name, num_byte, sha256, unpacked in _ROW.findall(table)
    )
