"""Tables of the page and for a paper, and the sentences around them."""

import dataclasses
import math
import shutil
import subprocess
from pathlib import Path

import pytest

from fleetsim.studies.page import findings, html_tables, latex_tables
from fleetsim.studies.study_tables import StudyHeader, StudyTables
from tests.studies.page.made_tables import CONDITIONS, made_header, made_tables

DOCUMENT = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs}
\begin{document}
\input{summaries}
\input{verdicts}
\end{document}
"""


def test_rows_are_in_the_order_of_the_study_file(tables: StudyTables, header: StudyHeader):
    table = html_tables.verdicts(tables, header)
    arms = [row[0].text for row in table.rows[::3]]

    # Three currencies for each arm, three arms for each condition.
    assert arms == list(header.arms[1:]) * 4
    assert [row[1].text for row in table.rows[::9]] == [*CONDITIONS, *CONDITIONS]


def test_a_run_that_never_reached_the_target_leaves_the_mean_open(tables: StudyTables, header):
    open_ = tables.summaries["num_reached"] < tables.summaries["num_seeds"]
    bounded = tables.summaries.assign(is_median_bound=open_)
    table = html_tables.summaries(dataclasses.replace(tables, summaries=bounded), header)
    by_reached = {row[4].text: row for row in table.rows}
    at = table.columns.index("mean")

    assert by_reached["4 of 5"][at].text == "-"
    assert by_reached["4 of 5"][at].key == "nan"
    assert by_reached["4 of 5"][table.columns.index("median")].text.startswith(">= ")
    assert math.isfinite(float(by_reached["5 of 5"][at].key))


def test_commands_of_latex_in_names_are_text():
    hostile = r"\input{x} 100% $a_b^c$ #1 ~ {a} & <b> \\"

    assert latex_tables.escaped(hostile) == (
        r"\textbackslash{}input\{x\} 100\% \$a\_b\textasciicircum{}c\$ \#1 \textasciitilde{}"
        r" \{a\} \& \textless{}b\textgreater{} \textbackslash{}\textbackslash{}"
    )


def test_a_latex_table_has_as_many_cells_as_columns_in_each_row(tables, header):
    for text in (latex_tables.summaries(tables, header), latex_tables.verdicts(tables, header)):
        columns = text.split("\\begin{tabular}{")[1].split("}")[0]
        rows = [line for line in text.splitlines() if line.endswith(r" \\")]

        assert len(rows) > 20
        assert {row.count(" & ") + 1 for row in rows} == {len(columns)}
        assert text.count("\\toprule") == text.count("\\midrule") == text.count("\\bottomrule") == 1


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
