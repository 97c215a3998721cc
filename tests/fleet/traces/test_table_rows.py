"""Tables as users write them: separators, headers and blank lines are noted, or refused."""

import pytest

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
