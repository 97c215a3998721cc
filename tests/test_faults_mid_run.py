"""A fault in the middle of a run: nothing that was recorded is lost, and the run can go on.

What a run that goes on must end with is the digest of one that was never disturbed.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from fleetsim import cli, simulate
from fleetsim.errors import DataError
from fleetsim.record.run import open_run
from fleetsim.scenario import load
from fleetsim.selectors.uniform import RandomSelector, RandomSettings

NUM_ROUNDS = 6
NEVER = NUM_ROUNDS + 1
SMALL = f"""\
name: small
task:
  dataset: {{kind: digits}}
  model: {{kind: logistic}}
  local:
    epochs: 1
    batch_size: 32
    optimizer: {{kind: sgd, learning_rate: 0.1}}
fleet:
  size: 8
  devices: {{pixel-6: 0.5, t2.small: 0.5}}
server: {{cohort: 3, deadline_s: 60}}
stop: {{rounds: {NUM_ROUNDS}}}
checkpoint: {{every_rounds: 1}}
"""


# Ctrl-C in round 4, from within: to somebody who watches from outside the run may have ended first.
# Jobs in the background of a shell ignore SIGINT, and their children inherit that.
INTERRUPTED = """\
import signal
from fleetsim import cli
from fleetsim.selectors.uniform import RandomSelector

select = RandomSelector.select

def select_or_interrupt(selector, view):
    if view.round == 4:
        signal.raise_signal(signal.SIGINT)
    return select(selector, view)

RandomSelector.select = select_or_interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.main()
"""


class Lost(RandomSelector):
    """Random selection with a bug in one round."""

    def __init__(self, round_):
        super().__init__(RandomSettings())
        self._bad_round = round_

    def select(self, view):
        if view.round == self._bad_round:
            raise ValueError(f"lost my way in round {view.round}")
        return super().select(view)


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return load(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing disturbs."""
    home = tmp_path_factory.mktemp("whole")
    (home / "small.yaml").write_text(SMALL)
    return simulate.run(load(home / "small.yaml"), out=home / "run")


def called(monkeypatch, *words):
    """Exit code of the command line."""
    monkeypatch.setattr(sys, "argv", ["fleetsim", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


@pytest.mark.parametrize("bad_round", [1, 4])
def test_a_selector_that_fails_leaves_the_rounds_before_and_a_healthy_one_goes_on(
    bad_round, scenario, whole, tmp_path
):
    out = tmp_path / "run"
    with pytest.raises(ValueError, match=f"lost my way in round {bad_round}"):
        simulate.run(scenario, out=out, selector=Lost(bad_round))

    failed = open_run(out)
    assert failed.manifest.status == "failed"
    assert failed.manifest.stop_text == f"lost my way in round {bad_round}"
    assert failed.manifest.rounds == bad_round - 1
    assert (out / "rounds.parquet").is_file()
    assert failed.rounds.equals(whole.rounds.head(bad_round - 1))
    assert failed.tasks.equals(whole.tasks[whole.tasks["round"] < bad_round])
    resumed = simulate.run(scenario, out=out, resume=True, selector=Lost(NEVER))
    assert resumed.manifest.status == "done"
    assert resumed.manifest.digest == whole.manifest.digest


@pytest.mark.parametrize("every_rounds", [1, 4])
def test_an_interrupt_keeps_every_finished_round_and_the_run_goes_on(
    every_rounds, scenario, whole, tmp_path
):
    out = tmp_path / "run"
    checkpoint = scenario.checkpoint.model_copy(update={"every_rounds": every_rounds})
    rarely = scenario.model_copy(update={"checkpoint": checkpoint})

    def interrupt(progress):
        if progress.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        simulate.run(rarely, out=out, on_progress=interrupt)

    assert caught.value.__notes__ == [f"3 round(s) are recorded in {out}"]
    interrupted = open_run(out)
    assert interrupted.manifest.status == "interrupted"
    assert interrupted.rounds.equals(whole.rounds.head(3))
    resumed = simulate.run(rarely, out=out, resume=True)
    assert resumed.manifest.digest == whole.manifest.digest


def test_training_that_diverges_is_refused_on_record_and_the_run_goes_on(
    scenario, monkeypatch, tmp_path
):
    out = tmp_path / "run"
    # Every step multiplies the weights by 1 - 50: in some 25 of them they pass the largest float32.
    sgd = "task.local.optimizer={learning_rate: 50, weight_decay: 1}"

    code = called(monkeypatch, "run", tmp_path / "small.yaml", "--set", sgd, "--out", out)

    done = open_run(out)
    refused = done.tasks[done.tasks.outcome == "refused"]
    assert not code
    assert len(refused) > 0
    assert refused.refused.str.contains("weights are not finite").all()
    assert done.rounds.num_refused.sum() == len(refused)
    wasted = done.tasks[done.tasks.outcome != "delivered"].filter(like="energy_").to_numpy().sum()
    assert done.rounds.energy_wasted_j.sum() == pytest.approx(wasted)


def test_a_full_disk_is_one_line_and_the_last_checkpoint_stands(
    scenario, whole, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "run"
    words = ["run", tmp_path / "small.yaml", "--out", out]

    def full(descriptor):
        if (out / "checkpoint" / "state-3.npz").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert called(monkeypatch, *words) == 2

    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line.startswith(f"error: {out / 'checkpoint'}")
    assert "No space left on device" in line
    assert "--resume" in line
    assert open_run(out).rounds.equals(whole.rounds.head(2))
    assert not called(monkeypatch, *words, "--resume")
    assert open_run(out).manifest.digest == whole.manifest.digest


def test_a_run_whose_tables_could_not_be_written_at_the_end_is_ended_by_resume(
    scenario, whole, tmp_path, monkeypatch
):
    out = tmp_path / "run"

    def full(descriptor):
        if (out / "rounds.parquet").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="No space left on device"):
            simulate.run(scenario, out=out)

    assert open_run(out).rounds.equals(whole.rounds)
    resumed = simulate.run(scenario, out=out, resume=True)
    assert resumed.manifest.digest == whole.manifest.digest


@pytest.mark.parametrize("pattern", ["latest.json", "state-*.npz", "rounds-*.arrow"])
def test_a_run_whose_checkpoint_is_damaged_can_still_be_read(pattern, scenario, whole, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(ValueError, match="lost my way"):
        simulate.run(scenario, out=out, selector=Lost(4))
    damaged = min((out / "checkpoint").glob(pattern))
    damaged.write_bytes(damaged.read_bytes()[:-7])

    with pytest.raises(DataError, match=rf"checkpoint/{damaged.name}: .*run afresh"):
        simulate.run(scenario, out=out, resume=True, selector=Lost(NEVER))

    assert open_run(out).manifest.status == "failed"
    assert open_run(out).rounds.equals(whole.rounds.head(3))


def test_ctrl_c_says_how_to_go_on_and_the_run_does(scenario, whole, tmp_path):
    out = tmp_path / "run"
    words = ["run", str(tmp_path / "small.yaml"), "--out", str(out)]
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words], stderr=subprocess.PIPE, text=True, check=False
    )

    assert process.returncode == 130
    assert process.stderr == (
        f"interrupted: 3 round(s) are recorded in {out};"
        f" go on with: fleetsim {' '.join(words)} --resume\n"
    )
    assert open_run(out).manifest.status == "interrupted"
    assert open_run(out).rounds.equals(whole.rounds.head(3))
    resumed = simulate.run(scenario, out=out, resume=True)
    assert resumed.manifest.digest == whole.manifest.digest


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("fleetsim.simulate.run", "interrupted; begin again with: fleetsim run"),
        ("fleetsim.report.page.write_report", "interrupted: the run is complete"),
    ],
    ids=["before the run", "after the run"],
)
def test_ctrl_c_outside_of_the_run_says_what_to_do(
    where, says, scenario, tmp_path, monkeypatch, capsys
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupt)

    code = called(monkeypatch, "run", tmp_path / "small.yaml", "--out", tmp_path / "run")

    said = capsys.readouterr().err
    assert code == 130
    assert said.count("\n") == 1
    assert said.startswith(says)
