"""Files in gzipped tar archives: the wanted ones alone, from archives of any content."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.learning.data.formats.tar_members import read_tar

LIMIT = 10_000


def archive(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_only_the_files_that_are_wanted_are_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.gz", {"x/readme.html": b"no", "../x/a": b"no", "x/a": b"yes"})

    assert read_tar(path, ["x/a"], max_byte=LIMIT) == {"x/a": b"yes"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("x/a")
        member.type, member.linkname = kind, "/etc/hostname"
        tar.addfile(member)

    with pytest.raises(DataError, match=r"a\.tar\.gz: x/a is there twice, no plain file, or"):
        read_tar(path, ["x/a"], max_byte=LIMIT)


def test_a_file_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.gz", {"x/a": b"\0" * (LIMIT + 1)})

    with pytest.raises(DataError, match=r"larger than 10000 bytes \(10001\)"):
        read_tar(path, ["x/a"], max_byte=LIMIT)


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("x/a"))

    with pytest.raises(DataError, match="x/a is there twice"):
        read_tar(path, ["x/a"], max_byte=LIMIT)


def test_an_archive_that_lacks_a_file_is_told_with_it(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.gz", {"x/a": b""})

    with pytest.raises(DataError, match=r"a\.tar\.gz: lacks x/b, x/c; get"):
        read_tar(path, ["x/a", "x/b", "x/c"], max_byte=LIMIT)


@pytest.mark.parametrize("keep", [0, 40, 2000])
def test_a_damaged_archive_is_told(tmp_path: Path, keep: int) -> None:
    noise = np.random.default_rng(1).bytes(4096)
    path = archive(tmp_path / "a.tar.gz", {"x/a": noise})
    path.write_bytes(path.read_bytes()[:keep] if keep else b"no archive at all")

    with pytest.raises(DataError, match=r"a\.tar\.gz: damaged archive \(.+\); get it anew"):
        read_tar(path, ["x/a", "x/b"], max_byte=LIMIT)
