"""The verbs `report` and `timeline`, and options on what is written after a run."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fleetsim
from fleetsim.cli import app
from fleetsim.record.saved_run import Run
from fleetsim.report.figures import style
from tests.report.made_runs import MadeUp, make_run

SIX = ["stop.rounds=6", "checkpoint.every_rounds=2"]
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

    command("report", made.folder, "--format", "png", "--target", "0.123")
    files = list((made.folder / "figures").iterdir())
    assert {path.suffix for path in files} == {".png"}
    assert int.from_bytes(files[0].read_bytes()[16:20]) == 300 * style.WIDTH_IN
    assert "12.3\xa0%" in (made.folder / "report.html").read_text()


def called(*words: object):
    return CliRunner().invoke(app, ["timeline", *map(str, words)])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["quickstart", "quickstart-fedbuff"])
def test_the_power_of_a_run_integrates_to_its_joules(tmp_path, scenario):
    from tests.report.timeline import reading  # noqa: PLC0415

    run = fleetsim.run(fleetsim.load(scenario, SIX), out=tmp_path / "run", train=False)

    result = called(run.folder)

    trace = reading.read((run.folder / "timeline.pftrace").read_bytes())
    assert result.stdout == f"timeline: {run.folder / 'timeline.pftrace'}\n"
    assert trace.integral("power/all") == pytest.approx(run.rounds["energy_total_j"].iloc[-1])
    slices = [one for track in trace.slices.values() for one in track]
    for phase in ("download", "compute", "upload"):
        lengths_ns = [one.end_ns - one.begin_ns for one in slices if one.name == phase]
        assert sum(lengths_ns) * 1e-9 == pytest.approx(run.tasks[f"{phase}_s"].sum())


def test_an_unfinished_run_says_up_to_where_it_is_shown(tmp_path):
    make_run(tmp_path / "run", MadeUp(status="interrupted", num_rounds=3))

    result = called(tmp_path / "run")

    assert "the run is interrupted; its timeline ends with round 3, the last" in result.stderr


def test_several_ranges_of_rounds_are_refused(tmp_path):
    result = called(tmp_path, "--rounds", "1:2,4:5")

    assert isinstance(result.exception, fleetsim.errors.ScenarioError)
    assert str(result.exception) == "--rounds 1:2,4:5: is more than one range; write FIRST:LAST"
