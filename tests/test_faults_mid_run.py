"""A fault in the middle of a run: nothing that was recorded is lost, and the run can go on.

What a run that goes on must end with is the digest of one that was never disturbed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys

import pytest
from pandas.testing import assert_frame_equal

from fleetsim import cli, simulate
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host.termination import Terminated
from fleetsim.record.manifest import PlatformRecord, read_manifest, write_manifest
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.saved_run import open_run
from fleetsim.scenario import load
from fleetsim.selectors.baselines.uniform import RandomSelector, RandomSettings

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


# A signal in round 4, from within: seen from outside the run may have ended first. It goes to all
# processes of the group, as from a terminal or a scheduler. Jobs in the background of a shell
# ignore SIGINT, and their children inherit that.
SIGNALLED = """\
import os
import signal
import sys
from fleetsim import cli
from fleetsim.selectors.baselines.uniform import RandomSelector

number = signal.Signals[sys.argv.pop(1)]
select = RandomSelector.select

def select_or_end(selector, view):
    if view.round == 4:
        os.killpg(0, number)
    return select(selector, view)

RandomSelector.select = select_or_end
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.main()
"""
ONE_BY_ONE = "trainer.kind=serial"
"""Every client is a chunk of its own, so that a second process has something to compute."""


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
    # A table without rows lacks the optional columns.
    before = whole.rounds.head(bad_round - 1)
    assert_frame_equal(failed.rounds, before[failed.rounds.columns])
    before = whole.tasks[whole.tasks["round"] < bad_round]
    assert_frame_equal(failed.tasks, before[failed.tasks.columns])
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


def test_an_interrupted_run_goes_on_on_another_platform_only_if_that_is_allowed(
    scenario, whole, tmp_path
):
    """The folder says that another processor began it; its rounds are as they would be here."""
    out = tmp_path / "run"

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate.run(scenario, out=out, on_progress=interrupt)
    manifest = read_manifest(out)
    (here,) = manifest.platforms
    there = PlatformRecord.of({**here.features, "processor": "Pentium"}, here.forms)
    write_manifest(out, manifest.model_copy(update={"platforms": (there,)}))

    with pytest.raises(ScenarioError, match=r"processor \(Pentium, .*allow-other-platform"):
        simulate.run(scenario, out=out, resume=True)
    assert read_manifest(out).status == "interrupted"
    resumed = simulate.run(scenario, out=out, resume=True, allow_other_platform=True)
    assert resumed.manifest.platforms == (there, here)
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


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory):
    """The run of `ONE_BY_ONE` that nothing disturbs."""
    home = tmp_path_factory.mktemp("one-by-one")
    (home / "small.yaml").write_text(SMALL)
    return simulate.run(load(home / "small.yaml", [ONE_BY_ONE]), out=home / "run")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("number", "code", "says"),
    [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "ended by SIGTERM")],
    ids=["ctrl-c", "sigterm"],
)
def test_a_signal_says_how_to_go_on_and_the_run_does(
    number, code, says, workers, scenario, one_by_one, tmp_path
):
    out = tmp_path / "run"
    words = ["run", str(tmp_path / "small.yaml"), "--set", ONE_BY_ONE]
    words += ["--out", str(out), "--workers", str(workers)]
    process = subprocess.run(
        [sys.executable, "-c", SIGNALLED, number, *words],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        start_new_session=True,
    )

    assert process.stderr == (
        f"{says}: 3 round(s) are recorded in {out};"
        f" go on with: fleetsim {' '.join(words)} --resume\n"
    )
    assert process.returncode == code
    assert open_run(out).manifest.status == "interrupted"
    assert open_run(out).manifest.stop_text == says
    assert open_run(out).rounds.equals(one_by_one.rounds.head(3))
    resumed = simulate.run(load(tmp_path / "small.yaml", [ONE_BY_ONE]), out=out, resume=True)
    assert resumed.manifest.digest == one_by_one.manifest.digest


def test_sigterm_ends_a_run_from_python_and_a_program_may_handle_it_itself(
    scenario, whole, tmp_path
):
    out, heard = tmp_path / "run", []

    def end(progress):
        if progress.round == 3:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Terminated) as caught:
        simulate.run(scenario, out=out, on_progress=end)
    assert caught.value.__notes__ == [f"3 round(s) are recorded in {out}"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        resumed = simulate.run(scenario, out=out, resume=True, on_progress=end)
        other = simulate.run(scenario, out=tmp_path / "other", on_progress=end)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert heard == [signal.SIGTERM]
    assert resumed.manifest.digest == other.manifest.digest == whole.manifest.digest


def test_a_second_sigterm_does_not_cut_short_what_is_saved_for_the_first(
    scenario, whole, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    flush = RunRecorder.flush

    def end(progress):
        if progress.round == 3:
            signal.raise_signal(signal.SIGTERM)

    def impatient(recorder):
        signal.raise_signal(signal.SIGTERM)
        flush(recorder)

    monkeypatch.setattr(RunRecorder, "flush", impatient)
    with pytest.raises(Terminated):
        simulate.run(scenario, out=out, on_progress=end)

    assert open_run(out).manifest.status == "interrupted"
    assert open_run(out).rounds.equals(whole.rounds.head(3))


@pytest.mark.parametrize("where", ["nothing", "an empty folder", "a folder half made"])
def test_resume_begins_where_there_is_no_run_and_leaves_it_when_complete(
    where, scenario, whole, tmp_path
):
    out = tmp_path / "run"
    notes: list[str] = []
    if where != "nothing":
        out.mkdir()
    if where == "a folder half made":
        for name in (".lock", "scenario.yaml", ".manifest.json.tmp"):
            (out / name).write_text("half")
        (out / "checkpoint").mkdir()

    begun = simulate.run(scenario, out=out, resume=True, on_note=notes.append)
    written = {path: path.stat().st_mtime_ns for path in out.glob("*")}
    complete = simulate.run(scenario, out=out, resume=True, on_note=notes.append)

    assert notes == [
        f"{out}: there is no run to resume yet, it begins here",
        f"{out}: the run is complete, there is nothing to resume",
    ]
    assert begun.manifest.digest == whole.manifest.digest
    assert complete.manifest == begun.manifest
    assert len(written) == 7
    assert {path: path.stat().st_mtime_ns for path in out.glob("*")} == written


def test_the_command_says_that_a_run_is_complete(scenario, whole, tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    shutil.copytree(whole.folder, out)

    assert not called(monkeypatch, "run", tmp_path / "small.yaml", "--out", out, "--resume")

    assert capsys.readouterr().err == (
        f"note: {out}: the run is complete, there is nothing to resume\n"
    )


class Kill(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_run_killed_at_any_file_operation_is_ended_by_resume(
    is_before, scenario, tmp_path, monkeypatch
):
    data = scenario.data() | {"stop": {"rounds": 2}}
    short = type(scenario).model_validate(data)
    num_done, kill_at = 0, None

    def killed_at(name, real):
        def operation(*args, **kwargs):
            nonlocal num_done
            is_now, num_done = num_done == kill_at, num_done + 1
            if is_now and is_before:
                raise Kill
            result = None if name == "fsync" else real(*args, **kwargs)
            if is_now:
                raise Kill
            return result

        return operation

    def run(out, **more):
        return simulate.run(short, out=out, train=False, **more).manifest.digest

    # A real kill runs none of what this process would do on its way out.
    monkeypatch.setattr(RunRecorder, "flush", lambda recorder: None)
    monkeypatch.setattr(simulate, "write_manifest", written_unless_killed)
    for name in ("fsync", "replace", "mkdir", "unlink"):
        monkeypatch.setattr(os, name, killed_at(name, getattr(os, name)))
    expected = run(tmp_path / "whole")
    num_operations = num_done
    assert num_operations > 40

    for number in range(num_operations):
        out = tmp_path / str(number)
        num_done, kill_at = 0, number
        with contextlib.suppress(Kill):
            run(out)
        kill_at = None
        assert run(out, resume=True) == expected


def written_unless_killed(folder, manifest):
    if manifest.status != "failed":
        write_manifest(folder, manifest)


def test_a_requeued_job_without_a_folder_of_its_own_has_one_run(
    scenario, whole, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate.run(scenario, resume=True, on_progress=interrupt)
    runs = [simulate.run(scenario, resume=True) for _ in range(2)]

    assert [path.name for path in (tmp_path / "runs").iterdir()] == [runs[0].folder.name]
    assert [run.manifest.digest for run in runs] == [whole.manifest.digest] * 2


def test_an_interrupt_before_the_first_round_says_how_to_go_on(scenario, tmp_path, monkeypatch):
    out = tmp_path / "run"

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunRecorder, "resume", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            simulate.run(scenario, out=out)

    assert caught.value.__notes__ == [f"the run in {out} is unchanged"]
    assert simulate.run(scenario, out=out, resume=True).manifest.status == "done"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("fleetsim.simulate.run", "interrupted; begin again with: fleetsim run"),
        ("fleetsim.report.pages.run_page.write_report", "interrupted: the run is complete"),
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
