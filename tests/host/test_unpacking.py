"""Compressed files that unpack to more than their limit, by each reader of compressed files."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.errors import DataError
from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.usage.flash import read_flash
from fleetsim.host.unpacking import LEAST_LIMIT_BYTE, LIMIT_VARIABLE, gunzip, limit_byte, unpacked
from fleetsim.learning.data.formats.archives import read_tar
from fleetsim.learning.data.formats.idx import read_idx
from fleetsim.learning.data.published.extrasensory import read_person
from tests.bombs import gzip_bomb, peak_byte

MIB = 1 << 20
IDX_HEADER = bytes([0, 0, 8, 1]) + (LEAST_LIMIT_BYTE + 1).to_bytes(4, "big")
TAR_HEADER = tarfile.TarInfo("other")
TAR_HEADER.size = 30 * MIB


@pytest.fixture(autouse=True)
def _default_limit(monkeypatch):
    monkeypatch.delenv(LIMIT_VARIABLE, raising=False)


def test_the_limit_is_64_mib_or_32_times_the_compressed_size():
    assert (limit_byte(1000), limit_byte(10 * MIB)) == (64 * MIB, 320 * MIB)


def test_the_environment_sets_another_limit(monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "1000")

    assert limit_byte(10 * MIB) == 1000
    assert gunzip(gzip.compress(bytes(1000)), "a") == bytes(1000)
    with pytest.raises(
        DataError, match=rf"^a: \d+ compressed bytes unpack .* 1000; .*{LIMIT_VARIABLE}"
    ):
        gunzip(gzip.compress(bytes(1001)), "a")


@pytest.mark.parametrize("text", ["4GiB", "-1", "0", "1e9", "9" * 5000, "\u0664"])
def test_a_limit_that_is_no_number_of_bytes_is_refused(monkeypatch, text):
    monkeypatch.setenv(LIMIT_VARIABLE, text)

    with pytest.raises(DataError, match=rf"^{LIMIT_VARIABLE}=.{{1,80}}: must be a number of bytes"):
        limit_byte(1)


@given(parts=st.lists(st.binary(max_size=3000), max_size=4), size=st.integers(1, 5000))
def test_what_was_packed_is_read_in_pieces_of_any_size(parts, size):
    packed = b"".join(map(gzip.compress, parts)) or gzip.compress(b"")
    stream = unpacked(io.BytesIO(packed), len(packed), "a")

    assert b"".join(iter(lambda: stream.read(size), b"")) == b"".join(parts)


def test_what_precedes_the_end_of_a_cut_stream_is_read():
    packed = gzip.compress(np.random.default_rng(1).bytes(100_000))
    stream = unpacked(io.BytesIO(packed[:60_000]), 60_000, "a")

    assert len(stream.read1(10)) == 10
    with pytest.raises(EOFError, match="end-of-stream"):
        stream.read()


BOMBS: dict[str, tuple[str, bytes, bytes, Callable[[Path], object]]] = {
    "idx": ("a", IDX_HEADER, bytes(1), read_idx),
    "csv": ("a.csv.gz", b"a\n", b"0\n", read_csv_table),
    "csv of empty lines": ("a.csv.gz", b"a\n", b"\n", read_csv_table),
    "csv of one row": ("a.csv.gz", b"a", b",0", read_csv_table),
    "csv of one quoted row": ("a.csv.gz", b'a\n"', b'\n","', read_csv_table),
    "json": ("a.json.gz", b"[", b"{}", lambda path: read_flash(path, "hold", "always")),
    "tar": ("a.tar.gz", TAR_HEADER.tobuf(), bytes(1),
        lambda path: read_tar(path, ["wanted"], max_byte=MIB)),
    "extrasensory": ("a", b"", b"\n",
        lambda path: read_person(path.read_bytes(), str(path), 0)),
}  # fmt: skip


@pytest.mark.parametrize(("name", "begin", "unit", "read"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_by_its_name_after_its_limit(
    tmp_path, monkeypatch, name, begin, unit, read
):
    path = tmp_path / name
    path.write_bytes(gzip_bomb(begin, unit * (MIB // len(unit)), 30))
    monkeypatch.setenv(LIMIT_VARIABLE, str(MIB // 8))

    with pytest.raises(DataError, match=rf"^{path}.*(unpack|characters)"):
        read(path)
    assert peak_byte(lambda: read(path)) < 4 * MIB


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(IDX_HEADER + bytes(100)), rf"its header announces .* {LIMIT_VARIABLE}"),
        (IDX_HEADER + bytes(100), r"truncated: its header announces .*, found 108;"),
    ],
    ids=["compressed", "plain"],
)
def test_a_header_that_claims_too_much_is_refused_before_it_takes_memory(
    tmp_path, content, message
):
    path = tmp_path / "a"
    path.write_bytes(content)

    with pytest.raises(DataError, match=f"a: {message}"):
        read_idx(path)
    assert peak_byte(lambda: read_idx(path)) < MIB


def test_a_file_that_is_not_compressed_has_no_limit(tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "10")
    (tmp_path / "a").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 100]) + bytes(100))
    (tmp_path / "a.csv").write_text("a\n" + "0\n" * 100)

    assert read_idx(tmp_path / "a").shape == (100,)
    assert read_csv_table(tmp_path / "a.csv").num_rows == 100
