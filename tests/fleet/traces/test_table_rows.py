"""Tables as users write them: separators, headers and blank lines are noted, or refused."""

import csv
import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_choice import column_choice, texts_of
from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.table_rows import PLAIN, SEEN, Layout, layout_of


def test_blank_lines_are_skipped_and_rows_keep_the_number_of_their_line(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("\n\na,b\n\n1,2\n3,4\n\n \n5,6\n\n")
    table = read_csv_table(path, SEEN)

    assert table.columns == {"a": ("1", "3", "5"), "b": ("2", "4", "6")}
    assert [table.place(row) for row in range(3)] == [f"{path}, row {row}" for row in (5, 6, 9)]
    assert table.notes == ["3 blank lines between rows skipped"]


LINES = {
    "one": ("1", '"2,3"', '"4\n5"', " 6 ", '"7""8"', "\xe9\x0b", "9\r"),
    "one,two": ("1,2", "3,", ",", '"4,5",6', '"7\n8",9', " 1,2 ", '"3""4",5', "\xe9,\x0b", "6,7\r"),
}


@settings(max_examples=50)
@given(st.data(), st.sampled_from(sorted(LINES)), st.booleans())
def test_a_table_of_any_length_has_the_rows_of_pythons_reader(
    tmp_path_factory, data, header, is_ended
):
    repeated = st.tuples(st.sampled_from(LINES[header]), st.sampled_from((1, 3, 1500)))
    parts = data.draw(st.lists(repeated, max_size=4))
    lines = [line for line, times in parts for _ in range(times)]
    text = "\n".join([header, *lines]) + ("\n" if is_ended else "")
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    expected = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
    table = read_csv_table(path)

    assert list(zip(*table.columns.values(), strict=True)) == list(map(tuple, expected))


def test_the_last_row_of_a_long_table_has_its_number(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,b\n" + "1,2\n" * 5000 + "\n" + "3,4\n" * 5000 + "5,x\n")
    table = read_csv_table(path)

    with pytest.raises(DataError, match="row 10003: b = 'x' is not a number"):
        table.numbers("b")
    with pytest.raises(DataError, match="row 10003: b = 'x' is not a number"):
        table.whole_numbers("b")


@pytest.mark.parametrize(("text", "layout", "message"), [
    ("0,a,1.5\n1,b,2\n", SEEN, "row 1: no column 't'.* some of these are values: add"),
    ("0,1.5\n1,2\n", SEEN, "row 1: is no header, its fields are values such as '0'; add"),
    ("2026-03-02 08:00:00,1\n", SEEN, "row 1: is no header"),
    ("a,b;c\n0,1;2\n", SEEN, "row 1: fields could be separated by commas or semicolons; pass"),
    ("a;b\n0;1\n", Layout(","), "row 1: one field, with semicolons in it; pass --separator"),
    ("a\tb\n0\t1\n", PLAIN, "row 1: one field, with tabs in it; save the file with commas, or"),
    ("a,b\n0,1\n2\n", SEEN, "row 3: 1 fields under a header of 2; .* or pass --separator if"),
    ("a,b,a\n0,1,2\n", SEEN, "row 1: a column is named twice, 'a'"),
    ("# by x\na,b\n0,1\n", SEEN, "row 1: is a comment, '# by x'; remove the lines above"),
    ("\n\n", SEEN, "row 1: the file is empty"),
])  # fmt: skip
def test_what_could_be_misread_is_refused_with_what_was_seen(tmp_path, text, layout, message):
    (tmp_path / "own.csv").write_text(text)

    with pytest.raises(DataError, match=f"own.csv, {message}"):
        texts_of(read_csv_table(tmp_path / "own.csv", layout), column_choice("--time", "t"))


@pytest.mark.parametrize(("separator", "decimal", "message"), [
    ("ab", None, "--separator 'ab': must be one character"),
    ("1", None, "--separator '1': must be one character"),
    (None, "-", "--decimal '-': must be"),
])  # fmt: skip
def test_options_that_cannot_be_are_refused(separator, decimal, message):
    with pytest.raises(ScenarioError, match=message):
        layout_of("trace import", separator=separator, decimal=decimal, missing=())


def test_a_packed_table_may_end_without_a_line_feed(tmp_path):
    """The packed file was read on after its end, which had closed it."""
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4"))
    table = read_csv_table(path)

    assert table.columns == {"a": ("1", "3"), "b": ("2", "4")}
