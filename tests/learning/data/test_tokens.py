"""Vocabularies, windows, and files out of zip archives."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.formats.zip_members import read_zip
from fleetsim.learning.data.tokens import check_memory, spread, windows
from tests.learning.data.stand_ins import zipped


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 12))
def test_windows_are_all_runs_of_the_tokens_that_begin_at_the_stride(num, length, stride):
    tokens = np.arange(100, 100 + num)

    expected = [
        tokens[start : start + length].tolist()
        for start in range(0, num, stride)
        if start + length <= num
    ]

    assert windows(tokens, length=length, stride=stride).tolist() == expected


@given(st.integers(0, 200), st.integers(1, 200))
def test_spread_rows_are_as_many_as_wanted_and_evenly_apart(num: int, wanted: int) -> None:
    rows = spread(num, wanted)
    gaps = np.diff(rows)

    assert len(rows) == min(num, wanted)
    assert spread(num, None).tolist() == list(range(num))
    assert not gaps.size or (gaps.min() >= 1 and np.ptp(gaps) <= 1)
    assert not rows.size or (rows[0] == 0 and rows[-1] < num)


def test_more_windows_than_a_machine_should_hold_are_refused() -> None:
    check_memory("key", 1_000_000, 500)
    with pytest.raises(ScenarioError, match=r"^key: 1000001 samples of 500 tokens take 4.0 GB"):
        check_memory("key", 1_000_001, 500)


def test_only_the_wanted_files_are_read(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", {"one": b"1", "two": b"2", "bomb": bytes(10**6)})

    assert read_zip(archive, ["two", "one"], max_byte=1) == {"one": b"1", "two": b"2"}


def test_a_file_that_is_missing_or_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", {"bomb": bytes(1001)})

    with pytest.raises(DataError, match=r"a.zip: bomb is .* larger than 1000 bytes \(1001\)"):
        read_zip(archive, ["bomb"], max_byte=1000)
    with pytest.raises(DataError, match=r"a.zip: lacks two"):
        read_zip(archive, ["bomb", "two"], max_byte=1001)


FLIPPED = b"some content that is stored"


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all", None])
def test_a_damaged_archive_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = zipped(tmp_path / "a.zip", {"one": FLIPPED})
    path.write_bytes(
        path.read_bytes().replace(FLIPPED, FLIPPED[::-1]) if content is None else content
    )

    with pytest.raises(DataError, match=r"a.zip: damaged archive .*get it anew"):
        read_zip(path, ["one"], max_byte=900)


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", {"one": b"1"})
    with zipfile.ZipFile(archive, "a") as again, pytest.warns(UserWarning, match="Duplicate name"):
        again.writestr("one", b"other")

    with pytest.raises(DataError, match="one is there twice"):
        read_zip(archive, ["one"], max_byte=9)
