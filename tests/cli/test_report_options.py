"""Options of the command line on what is written after a run."""

from pathlib import Path

import pytest

from fleetsim.record.saved_run import Run
from tests.report.made_runs import MadeUp, make_run

SHORT = ("--no-train", "--set", "stop.rounds=2", "--workers", "1")


@pytest.fixture
def made(tmp_path: Path) -> Run:
    return make_run(tmp_path / "made", MadeUp(num_rounds=3))


def test_a_run_without_a_report_says_the_same_and_writes_no_page(tmp_path, command):
    done = command("run", "quickstart", *SHORT, "--no-report", "--out", tmp_path / "run")

    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == [
        *("folder", "rounds", "accuracy", "energy", "tasks", "battery", "digest")
    ]
    assert (tmp_path / "run" / "tasks.parquet").is_file()
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
def test_figures_are_files_where_formats_are_asked_for(made, command):
    alone = command("report", made.folder)
    assert (alone.code, alone.out) == (0, f"{made.folder / 'report.html'}\n")
    assert not (made.folder / "figures").exists()

    command("report", made.folder, "--format", "svg", "--target", "0.123")
    assert {path.suffix for path in (made.folder / "figures").iterdir()} == {".svg"}
    assert '<th scope="row">12.3 %</th>' in (made.folder / "report.html").read_text()


def test_an_unknown_format_is_one_line(made, command):
    done = command("report", made.folder, "--format", "gif")

    assert done.code == 2
    assert "'gif' is not one of 'pdf', 'png', 'svg'" in done.err
