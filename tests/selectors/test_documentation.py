"""Pages on selectors keep up with the code, and list readings of papers as the settings do."""

import doctest
import json
import re
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from fleetsim import contracts
from fleetsim.learning.partition.dirichlet import ClientDirichletSettings
from fleetsim.selectors import SelectorSettings

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "selectors.md", *sorted((DOCS / "selectors").glob("*.md"))]
OWN = DOCS / "own-selectors.md"
READINGS = DOCS / "evidence" / "readings-of-papers.md"
WORDS = DOCS / "decisions" / "0012-words-for-selectors.md"
SETTINGS = {
    cls.model_fields["kind"].default: cls
    for cls in (*get_args(get_args(SelectorSettings)[0]), ClientDirichletSettings)
}


KINDS = ["gpfl", "fedgra", "tifl", "afl", "fedcor", "divfl", "quick-init-ucb", "favor", "fedgcs"]


def rows() -> list[list[str]]:
    lines = [line for line in READINGS.read_text().splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


def words_in(annotation) -> set[str]:
    """Values of the Literals in an annotation."""
    if get_origin(annotation) is Literal:
        return {str(value) for value in get_args(annotation)}
    return {word for part in get_args(annotation) for word in words_in(part)}


KEYED = [row for row in rows() if re.fullmatch(r"`[\w-]+\.\w+`", row[2]) and "task." not in row[2]]


@pytest.mark.parametrize("row", KEYED, ids=lambda row: row[2].strip("`"))
def test_a_reading_is_a_setting_with_this_default_and_among_these_options(row):
    kind, key = row[2].strip("`").split(".")
    field = SETTINGS[kind].model_fields[key]
    default = field.default if isinstance(field.default, str) else json.dumps(field.default)
    named = re.findall(r"`([\w.]+)`", row[3])
    options = words_in(field.annotation)

    assert named[0] == default
    if options:
        assert set(named) <= options


def test_every_named_reading_of_these_papers_has_its_row():
    assert len(KEYED) > 20
    assert all(len(row) == 4 for row in rows())
    listed = {tuple(row[2].strip("`").split(".")) for row in KEYED}
    # Not readings of a paper: who computes and how, and the order of equals.
    not_of_papers = {"kind", "ties", "divergence_at"}
    expected = {
        (kind, key)
        for kind in KINDS
        for key, field in SETTINGS[kind].model_fields.items()
        if words_in(field.annotation) and key not in not_of_papers
    }

    assert expected - listed == set()


def test_the_words_that_the_pages_name_are_in_the_contract():
    pages = "".join(page.read_text() for page in [*PAGES, OWN, WORDS])
    named = re.findall(r"\b([A-Z]\w+)\.([a-z]\w+)", pages)
    words = {(owner, word) for owner, word in named if hasattr(contracts, owner)}

    assert len(words) > 10
    for owner, word in sorted(words):
        cls = getattr(contracts, owner)
        assert word in {*get_type_hints(cls), *dir(cls)}, f"{owner}.{word}"


def test_the_examples_of_the_pages_are_as_they_say():
    results = [doctest.testfile(str(page), module_relative=False) for page in PAGES]

    assert sum(result.attempted for result in results) >= 12
    assert sum(result.failed for result in results) == 0


@pytest.mark.slow
def test_the_example_selector_runs():
    result = doctest.testfile(str(OWN), module_relative=False)

    assert result.attempted > 5
    assert result.failed == 0
