"""The page of selectors lists the readings of the papers as the settings have them."""

import json
import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from fleetsim.learning.partition.client_dirichlet import ClientDirichletSettings
from fleetsim.selectors import SelectorSettings

PAGE = Path(__file__).parents[2] / "docs" / "selectors.md"
SETTINGS = {
    cls.model_fields["kind"].default: cls
    for cls in (*get_args(get_args(SelectorSettings)[0]), ClientDirichletSettings)
}


def rows() -> list[list[str]]:
    section = re.search(r"^## What the papers leave open\n(.*?)^## ", PAGE.read_text(), re.M | re.S)
    assert section
    lines = [line for line in section[1].splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


def words_in(annotation) -> set[str]:
    """Values of the Literals in an annotation."""
    if get_origin(annotation) is Literal:
        return {str(value) for value in get_args(annotation)}
    return {word for part in get_args(annotation) for word in words_in(part)}


KEYED = [row for row in rows() if re.fullmatch(r"`[\w-]+\.\w+`", row[2]) and "task." not in row[2]]


def test_the_table_is_there():
    assert len(KEYED) > 20
    assert all(len(row) == 5 for row in rows())


@pytest.mark.parametrize("row", KEYED, ids=lambda row: row[2].strip("`"))
def test_a_reading_is_a_setting_with_this_default_and_these_options(row):
    kind, key = row[2].strip("`").split(".")
    field = SETTINGS[kind].model_fields[key]
    default = field.default if isinstance(field.default, str) else json.dumps(field.default)
    named = re.findall(r"`([\w.]+)`", row[3])
    options = words_in(field.annotation)

    assert named[0] == default
    if options:
        assert {default, *re.findall(r"`(\w+)`", row[4])} == options


def test_every_named_reading_of_these_papers_has_its_row():
    listed = {tuple(row[2].strip("`").split(".")) for row in KEYED}
    kinds = (
        "gpfl",
        "fedgra",
        "tifl",
        "afl",
        "fedcor",
        "divfl",
        "quick-init-ucb",
        "favor",
        "fedgcs",
    )
    # Not readings of a paper: who computes and how, and the order of equals.
    not_of_papers = {"kind", "ties", "divergence_at"}
    expected = {
        (kind, key)
        for kind in kinds
        for key, field in SETTINGS[kind].model_fields.items()
        if words_in(field.annotation) and key not in not_of_papers
    }

    assert expected - listed == set()
