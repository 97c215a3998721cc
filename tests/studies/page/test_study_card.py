"""Summary of a study in a notebook."""

import dataclasses
import re

import pytest

from fleetsim.studies.page import study_card
from fleetsim.studies.result import StudyResult
from tests.studies.page.made_tables import SCRIPT_NAME, made_header, made_tables
from tests.studies.small_studies import loaded


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
