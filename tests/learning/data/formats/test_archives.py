import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.learning.data.formats.archives import read_tar, read_zip
from tests.learning.data.stand_ins import tarred, zipped

NOISE = np.random.default_rng(1).bytes(4096)

every_form = pytest.mark.parametrize(
    ("packed", "read"), [(zipped, read_zip), (tarred, read_tar)], ids=["zip", "tar"]
)


@every_form
def test_only_the_files_that_are_wanted_are_read(tmp_path, packed, read):
    contents = {"x/b": b"2", "../x/a": b"no", "x/a": b"1", "bomb": bytes(10**6)}
    archive = packed(tmp_path / "a", contents)

    assert read(archive, ["x/b", "x/a"], max_byte=1) == {"x/a": b"1", "x/b": b"2"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@every_form
def test_a_file_that_is_missing_or_larger_than_allowed_is_refused(tmp_path, packed, read):
    archive = packed(tmp_path / "a", {"bomb": bytes(1001)})

    with pytest.raises(DataError, match=r"a: bomb is .* larger than 1000 bytes \(1001\)"):
        read(archive, ["bomb"], max_byte=1000)
    with pytest.raises(DataError, match=r"a: lacks one, two; get"):
        read(archive, ["two", "bomb", "one"], max_byte=1001)


@every_form
@pytest.mark.parametrize("keep", [0, 2, 40, 2000, -30])
def test_a_damaged_archive_is_refused(tmp_path, packed, read, keep):
    archive = packed(tmp_path / "a", {"x": NOISE})
    archive.write_bytes(archive.read_bytes()[:keep])

    with pytest.raises(DataError, match=r"a: damaged archive \(.+\); get it anew"):
        read(archive, ["x"], max_byte=9000)


def test_a_flipped_bit_in_a_zip_is_noticed(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", {"x": NOISE})
    archive.write_bytes(archive.read_bytes().replace(NOISE, NOISE[::-1]))

    with pytest.raises(DataError, match=r"a: damaged archive \(Bad CRC"):
        read_zip(archive, ["x"], max_byte=9000)


def test_a_file_that_is_twice_in_a_zip_is_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", {"one": b"1"})
    with zipfile.ZipFile(archive, "a") as again, pytest.warns(UserWarning, match="Duplicate name"):
        again.writestr("one", b"other")

    with pytest.raises(DataError, match="one is there twice"):
        read_zip(archive, ["one"], max_byte=9)


@pytest.mark.parametrize("kinds", [b"2", b"1", b"5", b"00"])  # link, hard link, folder, twice
def test_a_member_of_a_tar_that_is_no_single_plain_file_is_refused(tmp_path, kinds):
    with tarfile.open(tmp_path / "a", "w:gz") as tar:
        for kind in kinds:
            member = tarfile.TarInfo("x/a")
            member.type, member.linkname = bytes([kind]), "/etc/hostname"
            tar.addfile(member)

    with pytest.raises(DataError, match="a: x/a is there twice, no plain file, or"):
        read_tar(tmp_path / "a", ["x/a"], max_byte=9)
