"""The page as a file: what it holds, and what its policy allows."""

import base64
import dataclasses
import hashlib
import json
import re
from pathlib import Path

import pytest

from fleetsim.studies.page import study_card, study_page
from fleetsim.studies.page.study_tables import StudyTables
from fleetsim.studies.result import StudyResult
from tests.report.parsed_page import ParsedPage
from tests.studies.page.made_tables import (
    CONDITIONS,
    REASON,
    SCRIPT_NAME,
    TARGETS,
    made_header,
    made_tables,
)
from tests.studies.small_studies import loaded


@pytest.fixture(scope="module")
def page(tables, header, tmp_path_factory):
    return study_page.write_page(tables, header, tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def parts(page: Path) -> ParsedPage:
    return ParsedPage(page)


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_loads_nothing_and_its_policy_allows_its_scripts_and_styles_alone(parts):
    addresses = [
        value
        for tag, attributes in parts.elements
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "style") and tag != "a"
    ]
    _, library, script = parts.texts["script"]
    (style,) = parts.texts["style"]
    policy = next(
        meta["content"]
        for meta in parts.all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )

    assert addresses == []
    assert policy is not None
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src {digest(library)} {digest(script)}",
        f"style-src {digest(style)} {digest('')}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_text_of_a_study_is_never_markup(page: Path, parts: ParsedPage):
    scripts = [attributes for tag, attributes in parts.elements if tag == "script"]

    assert len(scripts) == 3
    assert (
        "<b>" not in page.read_text("utf-8").split('<script type="application/json"', maxsplit=1)[0]
    )
    assert SCRIPT_NAME in parts.words
    assert REASON in parts.words


def test_data_cannot_end_their_element():
    data = {"name": "</script><!-- \u2028 &", "more": [1.5]}
    text = study_page.embedded(data)

    assert json.loads(text) == data
    assert not re.search(r"[<>&\u2028]", text)


def test_the_page_opens_with_verdicts_on_the_main_target_and_tells_what_limits_them(parts, tables):
    words = parts.words

    assert words.index("1 of 40 runs failed.") < words.index("joules to 80 %")
    assert "2 numerical platforms" in words
    assert "Device figures are drawn anew" in words
    assert words.index(f"joules to 80 %, {CONDITIONS[0]}") < words.index(
        "Verdicts on other targets"
    )
    assert all(sentence in words for sentence in tables.verdicts["sentence"])


def test_every_chart_has_a_variant_for_every_choice_and_a_description_that_says_the_finding(parts):
    data = json.loads(parts.texts["script"][0])
    charts = data["charts"]
    sizes = {name: len(variants) for name, variants in charts.items()}

    # Conditions x axes, conditions x targets, targets x metrics, conditions x targets x two
    # divisions.
    assert sizes == {"accuracy": 2 * 3, "plane": 2 * 2, "effect": 2 * 3, "ledger": 2 * 2 * 2}
    assert "oort needs" in charts["accuracy"][0]["finding"]
    assert charts["plane"][1]["finding"].startswith("Pareto front to 80 %:")
    assert charts["ledger"][0]["finding"].startswith("Mean joules to 60 % by component: random")
    assert data["choices"] == {
        "condition": CONDITIONS[0],
        "against": "energy",
        "target": TARGETS[-1],
        "metric": "joules",
        "key": "deadline_s",
        "by": "component",
    }


def test_a_failed_run_is_in_no_chart(parts: ParsedPage):
    data = json.loads(parts.texts["script"][0])
    (drawn,) = [
        variant
        for variant in data["charts"]["accuracy"]
        if variant["choice"] == {"condition": CONDITIONS[1], "against": "rounds"}
    ]
    seeds = [trace["meta"]["arm"] for trace in drawn["traces"] if trace["meta"]["role"] == "seed"]

    assert [seeds.count(arm) for arm in range(4)] == [5, 4, 5, 5]
    assert "least to most with fewer than 5" in drawn["caption"]


@pytest.mark.slow
def test_a_study_that_varies_nothing_has_no_effect_and_no_column_of_conditions(tmp_path: Path):
    header = made_header(varied=False)
    page = study_page.write_page(made_tables(header), header, tmp_path)
    parts = ParsedPage(page)

    assert "Effect of what is varied" not in parts.words
    assert "condition" not in [head.get("data-column") for head in parts.all("th")]
    assert "effect" not in json.loads(parts.texts["script"][0])["charts"]


def test_a_study_without_a_run_that_is_done_still_has_its_page(tmp_path: Path, header, tables):
    empty = {
        name: getattr(tables, name).iloc[:0]
        for name in ("costs", "curves", "ledgers", "summaries", "verdicts")
    }
    bare = StudyTables(runs=tables.runs.assign(status="missing"), **empty)
    words = ParsedPage(study_page.write_page(bare, header, tmp_path)).words

    assert "40 of 40 runs are missing." in words
    assert "There is nothing to compare" in words


@pytest.mark.slow
def test_the_same_tables_give_the_same_bytes_in_any_order_of_rows(tmp_path: Path, header, tables):
    turned = StudyTables(
        **{
            field.name: getattr(tables, field.name).iloc[::-1].reset_index(drop=True)
            if field.name in ("curves", "ledgers", "costs")
            else getattr(tables, field.name)
            for field in dataclasses.fields(StudyTables)
        }
    )
    one, other = (
        study_page.write_page(each, header, tmp_path).read_bytes() for each in (tables, turned)
    )

    assert one == other


def test_a_study_shows_its_verdicts_costs_and_one_picture():
    header = made_header(varied=False, arms=("random", "oort"))
    tables = made_tables(header)

    html = study_card.html(tables, header)

    rows = tables.verdicts[tables.verdicts["target"] == "80 %"]
    (sentence,) = rows[rows["metric"] == "joules"]["sentence"]
    body = html.partition("<tbody>")[2]
    assert html.count("<img ") == 1
    assert sentence.replace("'", "&#39;") in html
    assert re.findall(r"<tr><th>(.*?)</th><td>80 %</td><td>(.*?)</td>", body) == [
        *(("random", "seconds"), ("random", "joules"), ("oort", "seconds"), ("oort", "joules"))
    ]
    assert len(html) < 150_000


@pytest.mark.slow
def test_names_are_escaped_and_what_limits_the_findings_is_said():
    header = made_header()

    html = study_card.html(made_tables(header), header)

    assert "<script" not in html
    assert SCRIPT_NAME.replace("<", "&lt;").replace(">", "&gt;") in html
    assert "1 of 40 runs failed." in html
    assert "39 of 40 runs are complete." in html


@pytest.mark.slow
def test_a_large_study_stays_small():
    arms = tuple(f"arm {number}" for number in range(40))
    header = dataclasses.replace(made_header(arms=("random", *arms), varied=False), seeds=(1, 2))

    html = study_card.html(made_tables(header, num_rounds=5), header)

    assert html.count("<tr>") == 1 + 24 + 1
    assert "... and 58 more" in html  # 41 arms in two metrics, less 24
    assert "... and 108 more verdicts" in html  # 40 in three metrics, less 12


def test_a_study_without_any_run_shows_that(tmp_path):
    result = StudyResult(loaded(tmp_path), tmp_path / "home")

    html = result._repr_html_()

    assert "0 of 4 runs are complete." in html
    assert "<img" not in html
    assert repr(result) == f"<StudyResult small in {tmp_path / 'home'}>"
