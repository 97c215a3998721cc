"""Gallery of the site: complete cards, figures of stored lines, and what is stored."""

import math
import xml.etree.ElementTree as ET
from html import unescape
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fleetsim import bundled
from fleetsim.schema import faults, strict_yaml
from fleetsim.studies import evidence
from fleetsim.studies.settings import StudySettings
from scripts.site_pages import gallery, gallery_pages
from scripts.site_pages.drawing import Axis

RUN: dict[str, Any] = {
    "subject": "scenarios",
    "name": "toy",
    "rounds": 2,
    "virtual_s": 90.0,
    "joules": {"compute": 750.0, "transmit": 250.0},
    "outcomes": {"delivered": 15, "late": 5},
    "curve": [[10.0, 100.0, 0.25], [80.0, 1000.0, 0.5]],
}
STUDY: dict[str, Any] = {
    "subject": "studies",
    "name": "toy",
    "target": "80 %",
    "metric": "joules",
    "baseline": "random",
    "groups": [
        {
            "condition": "phones",
            "answer": "Joules to 80 %: 2 < 3.",
            "verdicts": [
                ["<x> & *y*", "more", 2.0, 1.0, 4.0],
                ["once", "one seed", 2.0, None, None],
                ["never", "undecided", None, None, None],
            ],
        }
    ],
}
MEASURED = {
    "definition": gallery.definition("scenarios", "quickstart"),
    "seeds": [1],
    "cpu_s": 3.0,
    "processor": "A *fast* one",
    "date": "2026-01-02",
    "version": "0.1.0",
    "digest": 64 * "0",
}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return gallery_pages.pages()


def test_every_bundled_scenario_and_study_has_a_card_with_its_question(pages):
    text = "\n\n".join(pages.values())
    questions = [line.partition("## ") for line in text.split("\n\n") if line.startswith("##")]

    assert len(gallery.cards()) > 100
    for key in gallery.cards():
        assert text.count(f"({gallery_pages.anchor(key)})=") == 1, key
    assert len(questions) >= len(gallery.cards())


def test_questions_are_whole_sentences():
    first = {
        name: (bundled.folder("scenarios") / f"{name}.yaml").read_text("utf-8").splitlines()[0]
        for name in bundled.names("scenarios")
    }

    assert [name for name, line in first.items() if not line.endswith("?")] == []


def test_stored_lines_are_of_bundled_files_and_their_figures_are_xml_with_words():
    lines = gallery.stored()

    assert lines.keys() <= set(gallery.cards())
    for (subject, _), line in lines.items():
        drawn = (
            gallery_pages.curves(line) if subject == "scenarios" else [gallery_pages.forest(line)]
        )
        for svg in drawn:
            root = ET.fromstring(svg)

            assert len(root.attrib["aria-label"]) > 20
            assert root.findall("path")


def test_a_card_says_that_its_line_is_of_an_older_file():
    key, line = ("scenarios", "quickstart"), RUN | MEASURED
    older = line | {"definition": "another"}

    assert "Measured before" not in gallery_pages.card(key, "How?", line)
    assert "Measured before" in gallery_pages.card(key, "How?", older)
    assert "Not measured yet." in gallery_pages.card(key, "How?", None)


def test_a_card_names_the_data_that_must_be_fetched_and_the_command():
    of_study = gallery_pages.card(("studies", "papers/fedgcs-records-lenet5"), "How?", None)
    blank = gallery_pages.card(("scenarios", "hundred-thousand-devices"), "How?", None)

    assert "Data that you fetch once: `mnist`, `fashion-mnist`, see" in of_study
    assert "fleetsim study run papers/fedgcs-records-lenet5\n" in of_study
    assert "Data" not in blank
    assert "fleetsim run hundred-thousand-devices --no-train\n" in blank


def test_foreign_text_is_escaped_in_cards_thumbnails_and_figures():
    key, question = ("scenarios", "quickstart"), "a <b> & *c*?"
    card = gallery_pages.card(key, question, RUN | MEASURED)
    thumbnail = ET.fromstring(gallery_pages.thumbnail("scenarios", key, question, None))
    figure = ET.fromstring(gallery_pages.forest(STUDY))

    assert r"a \<b\> \& \*c\*?" in card
    assert r"(A \*fast\* one)" in card
    assert thumbnail.findtext("span") == question
    assert "<x> & *y*" in [one.text for one in figure.iter("text")]
    assert figure.attrib["aria-label"] == "phones Joules to 80 %: 2 < 3."


def test_a_finding_is_made_of_the_numbers_of_its_line():
    assert gallery_pages.finding(RUN) == (
        "The 2 rounds took 90.0 s of virtual time and 1.00 kJ (largest part: compute,"
        " 75.0 %), and ended at 50.0 % accuracy; of 20 training tasks: 15 delivered, 5 late."
    )


def test_curves_have_a_point_for_each_stored_one_on_axes_with_units():
    by_time, by_energy = map(ET.fromstring, gallery_pages.curves(RUN))
    left, right = gallery_pages.LEFT, gallery_pages.WIDTH - gallery_pages.RIGHT
    floor = gallery_pages.HEIGHT - gallery_pages.FOOT
    curve = next(one.attrib["d"] for one in by_time if one.get("class") == "curve")
    words = [one.text for one in by_energy.iter("text")]

    # The axes end at 80 s and 60 %, which are round numbers.
    x, *y = left + (right - left) / 8, *(floor - (floor - 10) * one / 60 for one in (25, 50))
    assert curve == f"M{x:.1f} {y[0]:.1f} {right} {y[1]:.1f}"
    assert {"energy (kJ)", "accuracy (%)", "1"} <= set(words)


def test_a_run_without_training_has_energy_over_time():
    untrained = RUN | {"curve": [[10.0, 100.0, None], [80.0, 1000.0, None]]}
    (figure,) = map(ET.fromstring, gallery_pages.curves(untrained))

    assert {"energy (kJ)", "virtual time (s)"} <= {one.text for one in figure.iter("text")}
    assert "accuracy" not in gallery_pages.finding(untrained)


def test_a_forest_has_a_dot_at_each_ratio_and_a_line_for_each_interval():
    figure = ET.fromstring(gallery_pages.forest(STUDY, names=0))
    dots = [float(one.attrib["cx"]) for one in figure.iter("circle")]
    lines = [one.attrib["d"] for one in figure.iter("path") if "interval" in one.attrib["class"]]
    # From 0.9, below the baseline at 1, to 4, the end of the widest interval.
    at_2 = 8 + 250 * math.log(2 / 0.9) / math.log(4 / 0.9)

    assert dots == [pytest.approx(at_2, abs=0.06)] * 2
    assert len(lines) == 1
    assert lines[0].endswith("H258")
    assert "not comparable" in [one.text for one in figure.iter("text")]


def test_numbers_of_a_logarithmic_axis_do_not_touch():
    places = sorted(place for place, _ in Axis(0.02, 50.0, 0.0, 250.0, is_log=True).ticks())

    assert len(places) >= 5
    assert min(np.diff(places)) >= 34.0


def test_a_curve_is_thinned_and_keeps_its_ends():
    num = 1000
    rounds = pd.DataFrame(
        {
            "finished_at_s": np.arange(num) + 1.0,
            "energy_total_j": np.arange(num) * 2.0,
            "accuracy": np.where(np.arange(num) % 2, np.arange(num) / num, np.nan),
        }
    )
    thinned = gallery.curve(rounds)

    assert len(thinned) == gallery.NUM_POINTS
    assert thinned[0] == [2.0, 2.0, 0.001]
    assert thinned[-1] == [1000.0, 1998.0, 0.999]
    assert gallery.curve(rounds.assign(accuracy=np.nan))[0] == [1.0, 0.0, None]


def test_verdicts_are_on_the_highest_target_that_most_arms_reached():
    file = bundled.folder("studies") / "robust-aggregators.yaml"  # 80 and 90 %, no primary outcome
    settings = faults.check(StudySettings, strict_yaml.read(file))
    reached = {("80 %", "a"): True, ("80 %", "b"): True, ("90 %", "a"): True, ("90 %", "b"): False}
    rows = [
        ("", target, "joules", arm, seed, cost * seed, is_reached)
        for (target, arm), is_reached in reached.items()
        for seed, cost in zip((1, 2), (100.0, 110.0) if arm == "a" else (200.0, 220.0), strict=True)
    ]
    columns = ["condition", "target", "metric", "arm", "seed", "cost", "is_reached"]
    costs = pd.DataFrame(rows, columns=columns)
    found = gallery.verdicts(settings, costs, evidence.verdicts(costs, ["a", "b"], "a"), ["a", "b"])

    assert (found["target"], found["metric"], found["baseline"]) == ("80 %", "joules", "a")
    ((arm, _, ratio, _, _),) = found["groups"][0]["verdicts"]
    assert (arm, ratio) == ("b", 2.0)
    assert "in ratio to a" in found["groups"][0]["answer"]


def test_a_study_that_would_take_too_long_is_left_out():
    known = {("scenarios", "quickstart"): {"cpu_s": 50.0}}

    with pytest.raises(gallery.TooLongError) as caught:
        gallery.of_study("quick", 600.0, known)

    assert caught.value.args == (750.0,)  # 15 runs


@pytest.mark.slow
def test_a_scenario_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(gallery, "TRIED_S", 0.0)

    with pytest.raises(gallery.TooLongError):
        gallery.of_scenario("quickstart", 0.01)


def test_the_index_links_to_all_cards_of_scenarios_and_studies(pages):
    index = unescape(pages["gallery/index.md"])

    for key in gallery.cards():
        if not key[1].startswith("papers/"):
            assert f'href="{key[0]}.html#{gallery_pages.anchor(key)}"' in index, key
