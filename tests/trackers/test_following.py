"""Trackers of a run: what they are told, when, and that they change nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

import fleetsim
from fleetsim.contracts import EndedRun, RoundRow, TrackedRun
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.record.run_folder import RunExistsError
from fleetsim.trackers.named import metrics_of
from tests.interrupts import interrupted

PAGE = Path(__file__).parents[2] / "docs" / "trackers.md"
SMALL = ("fleet.size=6", "server.cohort=2", "stop.rounds=4", "checkpoint.every_rounds=2")


class Notes:
    """Tracker that writes down what it is told."""

    def __init__(self, fails_at: int | str | None = None) -> None:
        self.begun: list[TrackedRun] = []
        self.rows: list[RoundRow] = []
        self.ended: list[EndedRun] = []
        self._fails_at = fails_at

    def begin(self, run: TrackedRun) -> None:
        self._fail("begin")
        self.begun.append(run)

    def round(self, row: RoundRow) -> None:
        self._fail(row.round)
        self.rows.append(row)

    def end(self, run: EndedRun) -> None:
        self._fail("end")
        self.ended.append(run)

    def _fail(self, at: int | str) -> None:
        if self._fails_at == at:
            raise ConnectionError("nobody\nlistens")


def made(folder: Path, *trackers: Any, **options: Any) -> fleetsim.Run:
    return fleetsim.run(
        "quickstart", SMALL, out=folder, train=False, progress=False, trackers=trackers, **options
    )


def test_a_tracker_hears_of_begin_rounds_and_end_and_numbers_are_finite_by_column(tmp_path):
    notes = Notes()
    done = made(tmp_path / "run", notes)
    (begun,), (ended,) = notes.begun, notes.ended

    assert (begun.name, begun.folder, begun.seed) == ("quickstart", tmp_path / "run", 1)
    assert (begun.num_rounds, begun.scenario["server"]["cohort"]) == (0, 2)
    assert begun.scenario_hash == done.manifest.scenario_hash
    assert begun.versions == done.manifest.versions
    assert [row.round for row in notes.rows] == [1, 2, 3, 4]
    assert [row.energy_j for row in notes.rows] == done.rounds["energy_j"].tolist()
    assert ended == EndedRun(tmp_path / "run", "done", "4 rounds done", done.manifest.digest)
    row = notes.rows[0]._replace(waiting_s=float("inf"), loss=None, selector_diagnostics="{}")
    metrics = metrics_of(row)
    assert (metrics["num_delivered"], metrics["aggregated"]) == (row.num_delivered, 1.0)
    assert not {"round", "waiting_s", "loss", "selector_diagnostics"} & metrics.keys()


@pytest.mark.slow
def test_a_run_that_continues_is_told_as_the_same_run(tmp_path):
    """Interrupted after round 3, with all three saved: the next that is told is the fourth."""
    first, second = Notes(), Notes()
    interrupted(made, tmp_path / "run", first, after=3)
    made(tmp_path / "run", second, exist_ok=True)

    assert [row.round for row in first.rows] == [1, 2, 3]
    assert (first.ended[0].status, first.ended[0].digest) == ("interrupted", None)
    assert second.begun[0].num_rounds == 3
    assert second.begun[0].identity == first.begun[0].identity
    assert [row.round for row in second.rows] == [4]
    assert second.ended[0].status == "done"
    other = Notes()
    made(tmp_path / "other", other)
    assert other.begun[0].identity != first.begun[0].identity


@pytest.mark.slow
@pytest.mark.parametrize("at", ["begin", 1, 3])
def test_a_tracker_that_fails_stops_the_run_which_can_continue_without_it(tmp_path, at):
    other = Notes()
    message = rf"tracker Notes\.{at if at == 'begin' else 'round'} fails: ConnectionError: nobody"
    with pytest.raises(PluginError, match=message) as caught:
        made(tmp_path / "run", Notes(at), other)
    finished = made(tmp_path / "run", exist_ok=True)

    assert "\n" not in str(caught.value)
    assert "continue it, without this tracker" in str(caught.value)
    assert finished.manifest.digest == made(tmp_path / "plain").manifest.digest
    assert [ended.status for ended in other.ended] == ([] if at == "begin" else ["failed"])


def test_a_tracker_that_fails_when_a_run_is_interrupted_leaves_a_note(tmp_path):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        made(tmp_path / "run", Notes("end"), on_progress=stop)

    assert any("Notes.end fails" in note for note in caught.value.__notes__)


@pytest.mark.slow
def test_a_tracker_that_fails_at_the_end_leaves_a_complete_run_which_tells_nobody(tmp_path):
    other, notes = Notes(), Notes()
    with pytest.raises(PluginError, match=r"Notes\.end fails: .*the run is complete in"):
        made(tmp_path / "run", Notes("end"), other)
    assert other.ended[0].status == "done"
    assert fleetsim.open_run(tmp_path / "run").manifest.status == "done"
    made(tmp_path / "run", notes, exist_ok=True)

    assert notes.begun == []
    with pytest.raises(RunExistsError):
        made(tmp_path / "run", notes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["tensorbord"], r"is none of tensorboard, mlflow, wandb.*'tensorboard'"),
        (["wandb="], "names no place; write wandb or wandb=DIR"),
        ([object()], "tracker .*object.* is no tracker, it lacks begin, round, end"),
        ("mlflow", "a list of trackers is wanted"),
    ],
)
def test_what_is_no_tracker_is_refused_before_the_run(tmp_path, given, message):
    with pytest.raises(ScenarioError, match=message):
        fleetsim.run("quickstart", SMALL, out=tmp_path / "run", train=False, trackers=given)
    assert not (tmp_path / "run").exists()


def test_the_example_of_the_page_runs_and_tells_what_it_says(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})
    first, *rounds, last = capsys.readouterr().out.splitlines()

    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    assert first == f"quickstart in {Path('runs/told')}, from round 1"
    assert [line.split()[0] for line in rounds] == ["1", "2"]
    assert last.startswith("done ")
