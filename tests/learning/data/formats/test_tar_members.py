"""Files in gzipped tar archives: the wanted ones alone, from archives of any content."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.learning.data.formats.tar_members import read_tar
from tests.learning.data.stand_ins import tarred

LIMIT = 10_000


def test_only_the_files_that_are_wanted_are_read(tmp_path: Path) -> None:
    path = tarred(tmp_path / "a.tar.gz", {"x/readme.html": b"no", "../x/a": b"no", "x/a": b"yes"})

    assert read_tar(path, ["x/a"], max_byte=LIMIT) == {"x/a": b"yes"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tar.gz"]


@pytest.mark.parametrize("kinds", [b"2", b"1", b"5", b"00"])  # link, hard link, folder, twice
def test_a_member_that_is_no_single_plain_file_is_refused(tmp_path: Path, kinds: bytes) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for kind in kinds:
            member = tarfile.TarInfo("x/a")
            member.type, member.linkname = bytes([kind]), "/etc/hostname"
            tar.addfile(member)

    with pytest.raises(DataError, match=r"a\.tar\.gz: x/a is there twice, no plain file, or"):
        read_tar(path, ["x/a"], max_byte=LIMIT)


NOISE = np.random.default_rng(1).bytes(4096)


@pytest.mark.parametrize(
    ("content", "keep", "says"),
    [
        (bytes(LIMIT + 1), None, r"larger than 10000 bytes \(10001\)"),
        (b"", None, r"a\.tar\.gz: lacks x/b, x/c; get"),
        (NOISE, 0, r"a\.tar\.gz: damaged archive \(.+\); get it anew"),
        (NOISE, 40, r"a\.tar\.gz: damaged archive \(.+\); get it anew"),
        (NOISE, 2000, r"a\.tar\.gz: damaged archive \(.+\); get it anew"),
    ],
)
def test_a_wrong_archive_is_told(tmp_path, content, keep, says):
    path = tarred(tmp_path / "a.tar.gz", {"x/a": content})
    path.write_bytes(path.read_bytes()[:keep] or b"no archive at all")

    with pytest.raises(DataError, match=says):
        read_tar(path, ["x/a", "x/b", "x/c"], max_byte=LIMIT)
