"""A fault in the middle of a run: nothing that was recorded is lost, and the run can go on.

What a run that goes on must end with is the digest of one that was never disturbed.
"""

import contextlib
import errno
import os

import pytest
from pandas.testing import assert_frame_equal

from fleetsim import simulate
from fleetsim.errors import DataError, PluginError
from fleetsim.record.manifest import write_manifest
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.saved_run import open_run
from fleetsim.selectors.baselines.uniform import RandomSelector, RandomSettings
from fleetsim.simulate import recorded_run

NEVER = 99


class Lost(RandomSelector):
    """Random selection with a bug in one round."""

    def __init__(self, round_):
        super().__init__(RandomSettings())
        self._bad_round = round_

    def select(self, view):
        if view.round == self._bad_round:
            raise ValueError(f"lost my way in round {view.round}")
        return super().select(view)


@pytest.mark.slow
@pytest.mark.parametrize("bad_round", [1, 4])
def test_a_selector_that_fails_leaves_the_rounds_before_and_a_healthy_one_goes_on(
    bad_round, scenario, whole, tmp_path
):
    out = tmp_path / "run"
    with pytest.raises(PluginError, match=f"lost my way in round {bad_round}"):
        simulate.run(scenario, out=out, selector=Lost(bad_round))

    failed = open_run(out)
    assert failed.manifest.status == "failed"
    message = f"select fails: ValueError: lost my way in round {bad_round} ("
    assert message in str(failed.manifest.stop_text)
    assert failed.manifest.rounds == bad_round - 1
    assert (out / "rounds.parquet").is_file()
    for name in ("rounds", "tasks"):
        rows, table = getattr(failed, name), getattr(whole, name)
        # A table without rows lacks the optional columns.
        assert_frame_equal(rows, table[table["round"] < bad_round][rows.columns])
    resumed = simulate.run(scenario, out=out, resume=True, selector=Lost(NEVER))
    assert resumed.manifest.status == "done"
    assert resumed.manifest.digest == whole.manifest.digest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("present", "place", "num_kept"),
    [("checkpoint/state-3.npz", "checkpoint", 2), ("rounds.parquet", "", 6)],
    ids=["at a checkpoint", "at the end"],
)
def test_a_full_disk_is_one_line_and_what_was_saved_before_stands(
    present, place, num_kept, scenario, whole, tmp_path, monkeypatch, command
):
    out = tmp_path / "run"

    def full(descriptor):
        if (out / present).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        ended = command("run", tmp_path / "small.yaml", "--out", out)

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith(f"error: {out / place}")
    assert "No space left on device" in ended.err
    assert "--resume" in ended.err
    assert open_run(out).rounds.equals(whole.rounds.head(num_kept))
    assert simulate.run(scenario, out=out, resume=True).manifest.digest == whole.manifest.digest


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["latest.json", "state-*.npz", "rounds-*.parquet"])
def test_a_run_whose_checkpoint_is_damaged_can_still_be_read(pattern, scenario, whole, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(PluginError, match="lost my way"):
        simulate.run(scenario, out=out, selector=Lost(4))
    damaged = min((out / "checkpoint").glob(pattern))
    damaged.write_bytes(damaged.read_bytes()[:-7])

    with pytest.raises(DataError, match=rf"checkpoint/{damaged.name}: .*run afresh"):
        simulate.run(scenario, out=out, resume=True, selector=Lost(NEVER))

    assert open_run(out).manifest.status == "failed"
    assert open_run(out).rounds.equals(whole.rounds.head(3))


class Kill(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.slow
def test_a_run_killed_at_any_file_operation_is_ended_by_resume(scenario, tmp_path, monkeypatch):
    data = scenario.data() | {"stop": {"rounds": 2}}
    short = type(scenario).model_validate(data)
    num_done, kill_at = 0, None

    def killed_at(real):
        def operation(*args, **kwargs):
            nonlocal num_done
            is_now, num_done = num_done == kill_at, num_done + 1
            if is_now:
                raise Kill
            return real(*args, **kwargs)

        return operation

    def run(out, **more):
        done = simulate.run(short, out=out, train=False, **more)
        return done.manifest.digest, done.scenario

    # A real kill runs none of what this process would do on its way out. Before a file gets its
    # name, it is there under another; tests/record/test_kill.py has half of it.
    monkeypatch.setattr(RunRecorder, "flush", lambda recorder: None)
    monkeypatch.setattr(recorded_run, "write_manifest", written_unless_killed)
    for name in ("replace", "mkdir", "unlink"):
        monkeypatch.setattr(os, name, killed_at(getattr(os, name)))
    expected = run(tmp_path / "whole")
    num_operations = num_done
    assert num_operations > 20

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
