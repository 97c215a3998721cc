"""The verb `timeline`, on runs of the engine and on made-up ones."""

import pytest
from typer.testing import CliRunner

import fleetsim
from fleetsim.cli import app
from tests.report.made_runs import MadeUp, make_run

SMALL = ["stop.rounds=6", "checkpoint.every_rounds=2"]


def called(*words: object):
    return CliRunner().invoke(app, ["timeline", *map(str, words)])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["quickstart", "quickstart-fedbuff"])
def test_the_power_of_a_run_integrates_to_its_joules(tmp_path, scenario):
    from tests.report.timeline import reading  # noqa: PLC0415

    run = fleetsim.run(fleetsim.load(scenario, SMALL), out=tmp_path / "run", train=False)

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
