import hashlib
import io
import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.errors import DataError
from fleetsim.record import digests, tables
from tests.record.rows import client_columns, round_row, task_row

TABLE = pa.table(
    {
        "n": pa.array([0, 2, 3]),
        "x": pa.array([0.5, None, -0.0]),
        "ok": pa.array([True, False, True]),
        "name": pa.array(["a", "", "\u00e9"]),
    }
)
HINT = "run it again"


def encoded(parts: tables.Parts, *, is_published: bool = True) -> bytes:
    sink = io.BytesIO()
    tables.encode(parts, sink, is_published=is_published)
    return sink.getvalue()


def digest(table: pa.Table) -> str:
    return digests.digest({"t": table})


def with_column(name: str, values: list[Any]) -> pa.Table:
    at = TABLE.column_names.index(name)
    return TABLE.set_column(at, name, pa.array(values))


@pytest.mark.parametrize("changed", [
    with_column("n", [0, 2, 4]),
    with_column("n", [None, 2, 3]),
    with_column("n", [0.0, 2.0, 3.0]),
    with_column("x", [0.5, None, 0.0]),
    with_column("x", [0.5, 0.0, -0.0]),
    with_column("ok", [True, True, True]),
    with_column("ok", [True, None, True]),
    with_column("name", ["", "a", "\u00e9"]),
    with_column("name", ["a", None, "\u00e9"]),
    TABLE.rename_columns(["m", "x", "ok", "name"]),
    TABLE.select(["x", "n", "ok", "name"]),
    TABLE.drop_columns(["ok"]),
    TABLE.append_column("more", pa.array([1, 2, 3])),
    TABLE.slice(0, 2),
    TABLE.take([1, 0, 2]),
])  # fmt: skip
def test_another_value_null_or_shape_changes_the_digest(changed):
    assert digest(changed) != digest(TABLE)


def test_digest_depends_on_the_names_of_tables_and_not_on_their_order():
    one, other = {"a": TABLE, "b": TABLE.slice(1)}, {"b": TABLE.slice(1), "a": TABLE}

    assert digests.digest({"t": TABLE}) != digests.digest({"u": TABLE})
    assert digests.digest(one) == digests.digest(other)
    # Every NaN counts as the same value.
    negative = np.array([-np.nan])
    assert np.signbit(negative)[0]
    assert digest(pa.table({"x": negative})) == digest(pa.table({"x": np.array([np.nan])}))


@pytest.mark.slow
@given(cuts=st.lists(st.integers(0, 3), max_size=4))
def test_digest_does_not_depend_on_chunks_or_offsets(cuts):
    edges = [0, *sorted(cuts), 3]
    pieces = [TABLE.slice(a, b - a) for a, b in itertools.pairwise(edges)]

    assert digest(pa.concat_tables(pieces)) == digest(TABLE)


def test_digest_of_one_number_is_the_hash_of_its_written_definition():
    def number(value: int) -> bytes:
        return value.to_bytes(8, "little")

    def block(data: bytes) -> bytes:
        return number(len(data)) + data

    expected = (
        *(block(b"t"), number(1), number(2)),
        *(block(b"x"), block(b"float64"), block(b"\x00\x01")),
        block(b"\x00\x00\x00\x00\x00\x00\xf0\x3f" + bytes(8)),  # 1.0 in IEEE 754, then a null
    )

    assert digest(pa.table({"x": [1.0, None]})) == hashlib.sha256(b"".join(expected)).hexdigest()


def test_digest_of_texts_is_the_hash_of_lengths_and_letters_in_a_file_of_any_row_groups(tmp_path):
    def numbers(*values: int) -> bytes:
        return b"".join(value.to_bytes(8, "little") for value in values)

    texts = pa.table({"x": ["a", None, "\u00e9", "a"]})
    pq.write_table(texts, tmp_path / "t.parquet", row_group_size=1)
    expected = (
        *(numbers(1), b"t", numbers(1, 4), numbers(1), b"x", numbers(6), b"string"),
        *(numbers(4), b"\x00\x01\x00\x00"),
        *(numbers(32), numbers(1, 0, 2, 1), numbers(4), "a\u00e9a".encode()),
    )
    by_hand = hashlib.sha256(b"".join(expected)).hexdigest()

    assert digest(texts) == by_hand
    assert digests.file_digests({"t": tmp_path / "t.parquet"}) == (by_hand, {"t": by_hand})


def test_a_diverged_loss_stays_apart_from_one_that_is_not_there():
    diverged = round_row(1)._replace(loss=math.inf, accuracy=math.nan)

    table = tables.from_rows("rounds", [diverged, round_row(2)])

    assert table["loss"].to_pylist() == [math.inf, None]
    assert table["accuracy"].null_count == 1


@pytest.mark.parametrize("few_rows", [0, 6])
def test_equal_tables_make_equal_files_however_they_are_chunked(monkeypatch, few_rows):
    monkeypatch.setattr(tables, "_FEW_ROWS", few_rows)
    rows = [task_row(task) for task in range(6)]
    whole = tables.from_rows("tasks", rows)
    parts = [tables.from_rows("tasks", rows[:1]), tables.from_rows("tasks", rows[1:])]

    assert encoded(parts) == encoded([whole])


@pytest.mark.slow
def test_parts_are_written_as_pyarrow_writes_the_whole_table_and_digested_as_that(tmp_path):
    """In two row groups and a third, from parts that end elsewhere."""
    num_rows, group = 2_100_000, 1 << 20
    whole = equal_rounds(num_rows).set_column(
        0, tables.SCHEMAS["rounds"].field(0), pa.array(np.arange(num_rows))
    )
    whole = whole.drop_columns(tables.unused("rounds", [whole]))
    words = [field.name for field in whole.schema if field.type == pa.string()]
    packed = {"compression": "zstd", "compression_level": 3, "use_dictionary": words}
    pq.write_table(
        whole, tmp_path / "whole", row_group_size=group, data_page_version="1.0", **packed
    )
    edges = [0, 1, 700_000, group, 2_000_000, num_rows]
    parts = [whole.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    tables.write(tmp_path / "parts", parts)

    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    of_all, of_each = digests.file_digests({"rounds": tmp_path / "parts"})
    assert of_all == of_each["rounds"] == digests.digest({"rounds": whole})
    with (tmp_path / "parts").open("rb") as file:
        read = list(tables.parts_in(file, "rounds", source="a", hint=HINT))
    assert [part.num_rows for part in read] == [group, group, num_rows - 2 * group]
    assert pa.concat_tables(read).equals(whole)


@pytest.mark.parametrize(("edit", "message"), [
    (lambda t: t.drop_columns(["energy_j"]), "'energy_j' is there 0 times"),
    (lambda t: t.append_column("mood", pa.array([1])), "'mood' is not one of this table"),
    (lambda t: t.set_column(0, "round", pa.array([1.0])), "'round' is double, not int64"),
    (lambda t: t.set_column(0, "round", pa.array([None], pa.int64())), "has 1 null value"),
])  # fmt: skip
def test_file_with_other_columns_is_refused(edit, message, tmp_path):
    path = tmp_path / "rounds.parquet"
    table = tables.from_rows("rounds", [round_row(1)])
    pq.write_table(edit(pa.table(table.columns, names=table.column_names)), path)

    with pytest.raises(DataError, match=rf"rounds\.parquet: column .*{message}.*; run it again$"):
        tables.read(path, "rounds", hint=HINT)


@pytest.mark.parametrize("is_published", [True, False])
def test_table_comes_back_and_is_refused_in_one_line_when_cut_short(is_published):
    table = tables.from_rows("rounds", [round_row(1), round_row(2)])
    whole = encoded([table], is_published=is_published)

    assert tables.decode(whole, "rounds", source="here", hint=HINT).equals(table)
    for length in range(0, len(whole) - 1, 97):
        with pytest.raises(DataError, match=r"^here: is not a whole parquet file .*again$"):
            tables.decode(whole[:length], "rounds", source="here", hint=HINT)


def test_columns_with_nothing_in_them_are_left_out_and_not_missed(tmp_path):
    plain = tables.from_rows("rounds", [round_row(1), round_row(2)])
    live = tables.from_rows("rounds", [round_row(1), round_row(2)._replace(num_off=0)])

    def kept(name: str, table: pa.Table) -> pa.Table:
        table = table.drop_columns(tables.unused("rounds", [table]))
        tables.write(tmp_path / name, [table])
        return tables.read(tmp_path / name, "rounds", hint=HINT)

    assert not tables.OPTIONAL["rounds"] & set(kept("plain.parquet", plain).schema.names)
    assert kept("live.parquet", live)["num_off"].to_pylist() == [None, 0]
    assert "accuracy" in kept("plain.parquet", plain).schema.names


@pytest.mark.slow
def test_a_table_that_announces_more_rows_than_its_bytes_can_mean_is_refused_unread():
    # A column of equal values takes a few bytes for any number of rows.
    data = parquet_of(equal_rounds(100_000), 40)

    assert len(data) < 1 << 20
    with pytest.raises(DataError, match=r"^a: announces 4000000 rows in \d+ bytes, .*again"):
        tables.decode(data, "rounds", source="a", hint="run it again")


@pytest.mark.slow
def test_texts_that_unpack_to_more_than_a_run_writes_are_refused():
    rounds = equal_rounds(100_000)
    place = rounds.schema.get_field_index("selector_diagnostics")
    long = pa.array(["x" * 10_000] * rounds.num_rows)
    data = parquet_of(rounds.set_column(place, "selector_diagnostics", long), 1)

    assert len(data) < 1 << 20
    with pytest.raises(DataError, match=r"^a: \d+ compressed bytes unpack to more than"):
        tables.decode(data, "rounds", source="a", hint="run it again")


def equal_rounds(num_rows: int) -> pa.Table:
    """Return rounds that are all the same, which compress to almost nothing."""
    one = tables.from_rows("rounds", [round_row(1)])
    return one.take(pa.array(np.zeros(num_rows, dtype=np.int64))).combine_chunks()


def parquet_of(block: pa.Table, num_blocks: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, block.schema) as writer:
        for _ in range(num_blocks):
            writer.write_table(block)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def test_text_that_is_no_utf_8_is_not_whole():
    (clients,) = tables.client_parts([client_columns()])
    clients = clients.slice(0, 1)
    bad = pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")
    )
    sink = pa.BufferOutputStream()
    place = clients.schema.get_field_index("device")
    pq.write_table(clients.set_column(place, clients.schema.field(place), bad), sink)

    with pytest.raises(DataError, match=r"^a: is not a whole parquet file \(.*UTF-?8.*again"):
        tables.decode(sink.getvalue().to_pybytes(), "clients", source="a", hint="run it again")
