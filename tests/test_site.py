"""Site of the documentation: complete generated pages, mended links, drawings, and checks."""

import doctest
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import fleetsim
from fleetsim.cli.explain_keys import schema_of
from fleetsim.fleet.devices.profile import device_names
from fleetsim.selectors import KINDS
from scripts.site_pages import (
    api_pages,
    checks,
    doors,
    drawing,
    gallery_pages,
    key_pages,
    reference_pages,
    searches,
    selections,
    selector_pages,
    staging,
)
from scripts.verbs import verbs

ROOT = staging.ROOT
WITHOUT_EQUATION = {"fixed"}
"""Selectors whose rule is a list of clients."""


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    found: dict[str, str] = {}
    for each in (doors, gallery_pages, key_pages, selector_pages, reference_pages, api_pages):
        found |= each.pages()
    return found


def properties(
    node: Any, definitions: dict[str, Any], seen: set[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and nodes of all properties of a JSON Schema that its root refers to."""
    if isinstance(node, list):
        for below in node:
            yield from properties(below, definitions, seen)
    elif isinstance(node, dict):
        found = node.get("properties")
        if isinstance(found, dict):
            yield from found.items()
        name = str(node.get("$ref", "")).rpartition("/")[2]
        if name and name not in seen:
            seen.add(name)
            yield from properties(definitions[name], definitions, seen)
        for key, below in node.items():
            if key != "$defs":
                yield from properties(below, definitions, seen)


@pytest.mark.parametrize(
    ("file", "directive"), [("scenario", "key"), ("study", "study-key"), ("search", "search-key")]
)
def test_every_key_of_the_schema_has_an_entry_with_its_description(pages, file, directive):
    body = "\n".join(pages.values())
    entries = re.findall(rf"^::::\{{{directive}\}} (\S+)", body, re.MULTILINE)
    names = {entry.rpartition(".")[2].removesuffix("[]") for entry in entries}
    text = " ".join(body.split())
    schema = schema_of(file, None)
    found = list(properties(schema, schema["$defs"], set()))

    assert len(found) > 20
    assert {name for name, _ in found} - names == set()
    assert [
        name
        for name, node in found
        if "const" not in node
        and key_pages.markdown(" ".join(node.get("description", "").split())) not in text
    ] == []


def test_every_kind_that_a_key_chooses_is_on_a_page(pages):
    body = "\n".join(pages.values())
    kinds = {kind for each in key_pages.scenario_keys() for kind in each.kinds}

    assert len(kinds) > 80
    assert {
        kind for kind in kinds if f"`{kind}`" not in body and f"/{kind}.md" not in body
    } == set()


def test_every_selector_has_a_page_with_rule_equation_figure_price_and_source(pages):
    for kind in KINDS:
        text = pages[f"selectors/{kind}.md"]
        titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
        rule = text.partition("## Rule\n")[2].partition("\n## ")[0]

        assert titles[:3] == ["Rule", "Whom it selects", "What it asks for, and what that costs"]
        assert titles[-2:] == ["Settings", "Source"]
        assert f"`{kind}`" in pages["selectors.md"]
        assert bool(re.search(r"^ {4,}\S.* = |^ {4}\S", rule, re.M)) or kind in WITHOUT_EQUATION, (
            kind
        )
        assert '<svg class="selections"' in text
        assert re.search(r"^(Secondary s|S)ources?:", text.partition("## Source\n")[2], re.M), kind


def test_a_generated_page_begins_with_its_reader_and_what_it_is_for(pages):
    begin = re.compile(r"# .+\n\s*For .+ After (this|these|one of these) (page|lesson)s? you ")

    assert [place for place, text in pages.items() if not begin.match(text)] == []


def test_every_command_option_public_name_device_and_failure_is_on_a_page(pages):
    commands = pages["reference/command-line.md"]
    python = pages["reference/python.md"] + pages["reference/contracts.md"]
    options = {name for _, verb in verbs() for one in verb.params for name in one.opts}

    assert len(options) > 60
    assert {one for one in options if one.startswith("--") and f"`{one}`" not in commands} == set()
    names = {*fleetsim.__all__, "FleetView", "RoundView", "Cohort"}
    assert {name for name in names - {"__version__"} if f"}} {name}" not in python} == set()
    assert {name for name in device_names() if f"reference/devices/{name}.md" not in pages} == set()
    assert "`nothing_aggregated`" in pages["reference/errors.md"]


def test_links_follow_pages_to_their_places_and_keep_away_from_code(tmp_path):
    page = ROOT / "docs" / "models" / "energy.md"
    text = (
        "[a](../devices.md#x) [`b`](../../CONTRIBUTING.md) [c](../../studies)"
        " [d](../../pyproject.toml) [e](nowhere.md)\n```\n[f](../../studies)\n```\n"
    )

    assert staging.mended(text, page, "models/energy.md") == (
        "[a](../devices.md#x) [`b`](../develop/contributing.md) c"
        " [d](../files/pyproject.toml) [e](nowhere.md)\n```\n[f](../../studies)\n```\n"
    )
    assert staging.linked_files(text, page) == {ROOT / "pyproject.toml"}


def test_a_page_is_not_both_written_by_hand_and_generated(tmp_path):
    with pytest.raises(SystemExit, match=r"both .* glossary\.md"):
        staging.stage(tmp_path / "pages", {"glossary.md": "# Terms\n"}, {}, "")


def test_the_check_of_a_site_finds_broken_links_and_requests_to_other_hosts(tmp_path):
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there"></a><a href="b.html#gone"></a><a href="c.html"></a>'
        '<a href="https://example.org"></a><script src="//example.org/x.js"></script>'
    )
    (tmp_path / "s.css").write_text("@import url('https://example.org/font.css'); a { b: url(c) }")

    assert checks.faults(tmp_path) == [
        "a.html: loads //example.org/x.js",
        "a.html: no anchor for the link b.html#gone",
        "a.html: no file for the link c.html",
        "s.css: loads https://example.org/font.css",
    ]


def test_the_questions_that_the_search_is_tried_with_have_pages(pages):
    places = {staging.place_of(path) for path in (ROOT / "docs").rglob("*.md")} | pages.keys()

    assert len(searches.ANSWERS) >= 20
    assert {page for page in searches.ANSWERS.values() if f"{page}.md" not in places} == set()


@pytest.mark.slow
def test_a_question_whose_page_is_not_among_the_first_hits_is_found(tmp_path):
    chromium = searches.browser()
    if chromium is None:
        pytest.skip("no Chromium on the PATH: apt-get install -y chromium")
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    names = ["a", "b", "c", "d", "e", "f"]
    for name in names:
        (tmp_path / f"{name}.rst").write_text(f"Batteries {name}\n===========\n\nAll of {name}.\n")
    (tmp_path / "index.rst").write_text("Home\n====\n\n.. toctree::\n   :glob:\n\n   ?\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-C", str(tmp_path), str(tmp_path / "html")]
    subprocess.run(command, check=True)

    # Equal scores stand by their titles, so the sixth page is behind the first five.
    assert searches.faults(
        tmp_path / "html", {"batteries": "b", "battery": "f", "charger": "a"}, chromium
    ) == [
        "search for 'battery': f is not among the first 5: a, b, c, d, e",
        "search for 'charger': a is not among the first 5: ",
    ]


def test_a_drawing_has_a_cell_for_each_selection_in_its_row_and_column():
    drawing = selections.figure(
        {
            "kind": "toy",
            "clients": {"phone": [2, 0], "board": [1]},
            "selected": [[0, 1], [2]],
            "not_delivered": [[1], []],
        }
    )
    left, top = selections.LEFT + 1, selections.BARS + 3
    width, height = selections.WIDTH, selections.HEIGHT

    def cells(name: str) -> str:
        (path,) = re.findall(rf'class="{name}" d="([^"]*)"', drawing)
        return str(path)

    cell = f"h{width - 2}"
    assert cells("delivered") == f"M{left + width} {top}{cell}M{left} {top + height}{cell}"
    assert cells("missed") == f"M{left + 2 * width} {top}{cell}"
    assert drawing.count("<text") == 1 + 1 + 2  # most selections, round 1, two devices


def test_stored_choices_are_those_of_all_selectors_in_one_world():
    stored = selections.stored()
    clients = [json.dumps(one["clients"], sort_keys=True) for one in stored.values()]

    assert list(stored) == list(KINDS)
    assert len(set(clients)) == 2  # that of the bandits over sets is smaller


@pytest.mark.slow
@pytest.mark.one_in(11)
@pytest.mark.parametrize("kind", KINDS)
def test_stored_choices_are_made_again(kind):
    command = [sys.executable, "-m", "scripts.site_pages.selections", "--check", kind]

    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    "module",
    [api_pages, drawing, gallery_pages, key_pages],
    ids=lambda module: module.__name__,
)
def test_examples_in_the_generators_hold(module):
    result = doctest.testmod(module)

    assert result.attempted > 0
    assert result.failed == 0
