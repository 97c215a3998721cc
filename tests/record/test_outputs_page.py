from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleetsim.record import tables
from fleetsim.record.checkpoint import Latest
from fleetsim.record.manifest import Manifest
from fleetsim.settings import Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "outputs.md"


def documented(heading: str, header: str) -> list[list[str]]:
    """Cells of the table under a heading whose first column is called `header`."""
    section = re.split(rf"^## {re.escape(heading)}$", PAGE.read_text(), flags=re.MULTILINE)[1]
    section = re.split(r"^## ", section, flags=re.MULTILINE)[0]
    table = section.split(f"| {header} |")[1]
    rows = re.findall(r"^\|(.*)\|$", table, flags=re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows if "---" not in row]


@pytest.mark.parametrize("name", list(tables.SCHEMAS))
def test_every_column_is_documented_in_its_order_and_no_other(name: tables.TableName):
    cells = documented(f"{name}.parquet", "Column")

    assert [row[0] for row in cells] == [f"`{column}`" for column in tables.SCHEMAS[name].names]


@pytest.mark.parametrize("name", list(tables.SCHEMAS))
def test_documented_type_unit_and_null_are_those_of_the_column(name: tables.TableName):
    type_names = {"double": "float64", "int64": "int64", "bool": "bool", "string": "string"}
    units = {"_s": "s", "_j": "J", "_byte": "byte", "_flop": "FLOP", "_fraction": "fraction"}
    for column, type_, unit, null, definition in documented(f"{name}.parquet", "Column"):
        field = tables.SCHEMAS[name].field(column.strip("`"))
        suffix = re.search(r"_[a-z]+$", field.name)

        assert type_ == type_names[str(field.type)], column
        assert (null != "never") == field.nullable, column
        assert definition.endswith("."), column
        if suffix and suffix[0] in units:
            assert unit == units[suffix[0]], column


@pytest.mark.parametrize(
    ("heading", "header", "model"),
    [("manifest.json", "Key", Manifest), ("checkpoint/", "Key of `latest.json`", Latest)],
)
def test_every_key_is_documented_and_no_other(heading: str, header: str, model: type[Settings]):
    found = dict(documented(heading, header))

    assert list(found) == [f"`{key}`" for key in model.model_fields]
    assert found["`format`"] == (f"Version of this layout: {model.model_fields['format'].default}.")
