"""Tables of the page and for a paper, and the sentences around them."""

import dataclasses
import math
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.studies import evidence
from fleetsim.studies.page import arm_costs, findings, html_tables, intervals, latex_tables
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables
from tests.studies.page.made_tables import CONDITIONS, made_header, made_tables

DOCUMENT = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs}
\begin{document}
\input{summaries}
\input{verdicts}
\end{document}
"""


def test_a_run_that_never_reached_the_target_leaves_the_mean_open(tables: StudyTables, header):
    open_ = tables.summaries["num_reached"] < tables.summaries["num_seeds"]
    bounded = tables.summaries.assign(is_median_bound=open_)
    table = html_tables.summaries(dataclasses.replace(tables, summaries=bounded), header)
    by_reached = {row[4].text: row for row in table.rows}
    at = table.columns.index("mean")

    assert (by_reached["4 of 5"][at].text, by_reached["4 of 5"][at].key) == ("-", "nan")
    assert by_reached["4 of 5"][table.columns.index("median")].text.startswith(">= ")
    assert math.isfinite(float(by_reached["5 of 5"][at].key))


def test_commands_of_latex_in_names_are_text():
    hostile = r"\input{x} 100% $a_b^c$ #1 ~ {a} & <b> \\"

    assert latex_tables.escaped(hostile) == (
        r"\textbackslash{}input\{x\} 100\% \$a\_b\textasciicircum{}c\$ \#1 \textasciitilde{}"
        r" \{a\} \& \textless{}b\textgreater{} \textbackslash{}\textbackslash{}"
    )


HOURS = {"a": (2, 8), "b": (1, 4), "c": (5, 20), "d": (3, 12.04)}


def hand_made(num_metrics: int = 1) -> tuple[StudyTables, StudyHeader]:
    """Costs of two seeds; the second run of c ended without the target."""
    names = ("seconds", "joules", "rounds", "dollars")[:num_metrics]
    costs = pd.DataFrame(
        {"condition": "", "target": "50 %", "metric": name, "arm": arm, "seed": seed,
         "cost": 3600.0 * hours[seed - 1], "is_reached": (arm, seed) != ("c", 2)}
        for name, (arm, hours), seed in product(names, HOURS.items(), (1, 2))
    )  # fmt: skip
    runs = costs[["condition", "arm", "seed"]].drop_duplicates().assign(status="done")
    header = StudyHeader("My_study.1", "", tuple(HOURS), "b", (1, 2), ("50 %",))
    none, verdicts = pd.DataFrame(), evidence.verdicts(costs, header.arms, "b")
    return StudyTables(runs, costs, none, none, none, verdicts), header


@pytest.mark.parametrize(
    ("spread", "cells"),
    [
        # Geometric means, least and most. The ratio of a to b is 2 for both seeds: without spread
        # p is the least of two signs, 0.5. The ratios of d are 3 and 3.01: t = 660, p = 0.001.
        ("interval", [r"4.00 [2.00, 8.00]+", r"\textbf{2.00} [1.00, 4.00]",
                      r"$\geq$ 10.00 (1/2)+", "6.01 [3.00, 12.04]"]),
        # 6, 3 and 9.04, each over the square root of 2.
        ("std", [r"5.00 $\pm$ 4.24+", r"\textbf{2.50} $\pm$ 2.12", r"$\geq$ 12.50 (1/2)+",
                 r"7.52 $\pm$ 6.39"]),
    ],
)  # fmt: skip
def test_a_latex_table_has_one_unit_and_marks_the_best_and_what_does_not_differ(spread, cells):
    text = latex_tables.summaries(*hand_made(), has_std=spread == "std")
    lines = text.replace(r"\rlap{$^{\dagger}$}", "+").splitlines()
    rows = [line for line in lines if line[:4] in {f"{arm} & " for arm in HOURS}]

    assert rows == [f"{arm} & {cell} \\\\" for arm, cell in zip(HOURS, cells, strict=True)]
    assert r"Arm & \multicolumn{1}{c}{Time (h)} \\" in text
    assert r"\label{tab:my-study-1-summaries}" in text
    assert r"to the target accuracy 50\,\%; 8 of 8 runs, seeds 1, 2." in text


def test_a_latex_table_of_ratios_has_their_tests_and_metrics_beyond_three_have_a_second_one():
    tables, header = hand_made(4)
    text = latex_tables.verdicts(tables, header)
    rows = [line for line in text.splitlines() if line.startswith("d & ")]

    # The root of 3 * 3.01; an interval of two pairs has 12.7 of their standard errors.
    assert rows[0].startswith(r"d & \textbf{3.00} [2.94, 3.07] & 0.003 & ")
    assert [row.count(" & ") for row in rows] == [6, 2]
    assert "Holm" in text
    assert [f"tab:my-study-1-verdicts{end}" in text for end in ("}", "-2}", "-3}")] == [1, 1, 0]


@pytest.mark.slow
def test_latex_accepts_the_tables(tmp_path: Path, tables, header):
    latex = shutil.which("pdflatex")
    if latex is None:
        pytest.skip("no pdflatex on the PATH")
    (tmp_path / "summaries.tex").write_text(latex_tables.summaries(tables, header), "utf-8")
    (tmp_path / "verdicts.tex").write_text(latex_tables.verdicts(tables, header), "utf-8")
    (tmp_path / "paper.tex").write_text(DOCUMENT, "utf-8")
    ended = subprocess.run(
        [latex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout[-1500:]
    assert "Overfull" not in ended.stdout


def test_the_answer_sorts_arms_by_verdict_with_their_ratios(tables, header):
    columns = ["arm", "kind", "ratio", "low", "high", "sentence"]
    rows = [
        ("oort", "less", 0.5, 0.4, 0.625, "A."),
        ("tifl", "more", 12.34, 11.0, 13.8, "B."),
        ("afl", "less", 0.8, 0.7, 0.914, "C."),
        ("ucb", "undecided", 0.96, 0.8, 1.15, "D."),
        ("fedcs", "undecided", math.nan, math.nan, math.nan, "E."),
    ]
    place = {"baseline": "random", "condition": "", "target": "80 %", "metric": "joules"}
    verdicts = pd.DataFrame(rows, columns=columns).assign(**place)
    of_study = dataclasses.replace(
        header, arms=("random", "tifl", "afl", "oort", "ucb", "fedcs"), baseline="random",
        targets=("80 %",), primary=("80 %", "joules"), conditions=("",),
    )  # fmt: skip

    assert findings.answers(dataclasses.replace(tables, verdicts=verdicts), of_study) == [
        "Joules to 80 %, in ratio to random: significantly fewer: afl 0.80 [0.70, 0.91],"
        " oort 0.50 [0.40, 0.62]; significantly more: tifl 12.3 [11.0, 13.8]; not significantly"
        " different: ucb 0.96 [0.80, 1.15]; cannot be compared, longer runs would tell: fedcs."
    ]


def costs(rows: list[tuple[str, str, int, str, float, bool]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["condition", "arm", "seed", "metric", "cost", "is_reached"])


def both(arm: str, seed: int, seconds: float, joules: float, *, reached: bool = True) -> list[Any]:
    return [
        ("", arm, seed, "seconds", seconds, reached),
        ("", arm, seed, "joules", joules, reached),
    ]


def test_an_arm_stands_at_the_geometric_mean_of_its_seeds():
    rows = [*both("a", 1, 10.0, 100.0), *both("a", 2, 40.0, 900.0), *both("b", 1, 5.0, 5000.0)]
    first, second = arm_costs.plane(costs(rows), ["a", "b"])

    assert (first.seconds.center, first.joules.center) == (20.0, 300.0)
    assert (first.seconds.low, first.seconds.high) == (10.0, 40.0)
    assert (first.num_reached, second.seconds.num_seeds) == (2, 1)
    assert first.is_on_front
    assert second.is_on_front


def test_an_arm_that_missed_the_target_in_a_seed_is_not_on_the_front():
    rows = [*both("a", 1, 10.0, 10.0), *both("b", 1, 1.0, 1.0, reached=False)]
    first, second = arm_costs.plane(costs(rows), ["a", "b"])

    assert (first.is_on_front, second.is_on_front) == (True, False)
    assert not second.is_complete


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12).map(
        lambda pairs: np.array(pairs, dtype=np.float64).reshape(-1, 2)
    )
)
def test_the_front_has_the_points_that_no_other_beats(points: np.ndarray):
    def beats(one: np.ndarray, other: np.ndarray) -> bool:
        return one[0] <= other[0] and one[1] <= other[1] and tuple(one) != tuple(other)

    assert arm_costs.pareto(points) == {
        index
        for index, point in enumerate(points)
        if not any(beats(other, point) for other in points)
    }


def test_a_level_counts_each_seed_once_with_its_mean_over_other_keys():
    # At level x seed 1 has costs 1 and 4, so 2; seed 2 has 8: together sqrt(16) = 4.
    rows = [
        ("x, u", "a", 1, "joules", 1.0, True),
        ("x, v", "a", 1, "joules", 4.0, False),
        ("x, u", "a", 2, "joules", 8.0, True),
        ("y, u", "a", 1, "joules", 7.0, True),
    ]
    levels = pd.Series({"x, u": "x", "x, v": "x", "y, u": "y"})
    effects = arm_costs.effects(costs(rows), levels, ["x", "y", "z"], ["a", "b"])
    first, second = effects["a"]

    assert (list(effects), first.level, second.level) == (["a"], "x", "y")
    assert first.cost == intervals.Mean(4.0, 2.0, 8.0, 2)
    assert (first.num_reached, first.num_runs) == (2, 3)


def test_a_mean_ledger_counts_a_run_without_a_part_as_zero():
    entries = pd.DataFrame(
        [
            ("a", 1, "compute", "used", 10.0),
            ("a", 1, "compute", "late", 2.0),
            ("a", 1, "transmit", "used", 6.0),
            ("a", 2, "compute", "used", 20.0),
        ],
        columns=["arm", "seed", "component", "energy_outcome", "energy_j"],
    )
    joules = arm_costs.mean_ledger(entries, "component", ["b", "a"], ["transmit", "compute"])

    assert list(joules.columns) == ["transmit", "compute"]
    assert joules.to_dict("index")["a"] == {"transmit": 3.0, "compute": 16.0}


def test_what_limits_the_findings_is_said(tables, header):
    one = made_header(seeds=(1,))
    runs = tables.runs.copy()
    runs.loc[0, "status"] = "missing"
    complete = tables.runs.assign(status="done", platform="avx2")
    quiet = dataclasses.replace(header, notes=())

    def notices(runs, header):
        return " ".join(
            f"{heading} {words}"
            for heading, words in findings.notices(dataclasses.replace(tables, runs=runs), header)
        )

    assert notices(made_tables(one).runs, one).startswith("One seed: no evidence. ")
    assert "1 of 40 runs are missing." in notices(runs, header)
    assert f"random, {CONDITIONS[0]}, seed 1" in notices(runs, header)
    assert notices(complete, quiet) == ""
