"""Ctrl-C and SIGTERM in a run: finished rounds are kept, and the run goes on where it was."""

import os
import shutil
import signal
from multiprocessing import active_children

import pytest

from fleetsim import simulate
from fleetsim.errors import ScenarioError
from fleetsim.host.termination import Terminated
from fleetsim.record.manifest import PlatformRecord, read_manifest, write_manifest
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.saved_run import open_run
from fleetsim.selectors.baselines.uniform import RandomSelector


def interrupt(*_, **__):
    raise KeyboardInterrupt


def terminate(progress):
    if progress.round == 3:
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_on_another_platform_only_if_that_is_allowed(
    scenario, whole, tmp_path
):
    """The folder says that another processor began it; its rounds are as they would be here."""
    out = tmp_path / "run"
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


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM")],
    ids=["ctrl-c", "sigterm"],
)
def test_a_signal_says_how_to_go_on_and_the_run_does(
    number, code, message, scenario, whole, tmp_path, monkeypatch, command
):
    """It goes to all processes that train, as from a terminal or a scheduler."""
    out = tmp_path / "run"
    words = ["run", str(tmp_path / "small.yaml"), "--out", str(out), "--workers", "2"]
    select, before, num_helpers = RandomSelector.select, set(active_children()), 0

    def select_or_end(selector, view):
        nonlocal num_helpers
        if view.round == 4:
            helpers = {child.pid for child in set(active_children()) - before if child.pid}
            num_helpers = len(helpers)
            for process in (*helpers, os.getpid()):
                os.kill(process, number)
        return select(selector, view)

    with monkeypatch.context() as patch:
        patch.setattr(RandomSelector, "select", select_or_end)
        ended = command(*words)

    assert num_helpers == 1
    assert ended.err == (
        f"{message}: 3 round(s) are recorded in {out};"
        f" go on with: fleetsim {' '.join(words)} --resume\n"
    )
    assert ended.code == code
    assert open_run(out).manifest.status == "interrupted"
    assert open_run(out).manifest.stop_text == message
    assert open_run(out).rounds.equals(whole.rounds.head(3))
    assert simulate.run(scenario, out=out, resume=True).manifest.digest == whole.manifest.digest


@pytest.mark.slow
def test_sigterm_ends_a_run_from_python_and_a_program_may_handle_it_itself(
    scenario, whole, tmp_path
):
    out, heard = tmp_path / "run", []
    with pytest.raises(Terminated) as caught:
        simulate.run(scenario, out=out, on_progress=terminate)
    assert caught.value.__notes__ == [f"3 round(s) are recorded in {out}"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        other = simulate.run(scenario, out=tmp_path / "other", on_progress=terminate)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert heard == [signal.SIGTERM]
    assert other.manifest.digest == whole.manifest.digest


@pytest.mark.slow
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

    texts = ("there is no run to resume yet, it begins here",
        "the run is complete, there is nothing to resume")  # fmt: skip
    assert notes == [f"{out}: {text}" for text in texts]
    assert begun.manifest.digest == whole.manifest.digest
    assert complete.manifest == begun.manifest
    assert len(written) == 7
    assert {path: path.stat().st_mtime_ns for path in out.glob("*")} == written


@pytest.mark.slow
def test_an_interrupt_before_the_first_round_says_how_to_go_on(scenario, tmp_path, monkeypatch):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(RunRecorder, "resume", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            simulate.run(scenario, out=out)

    assert caught.value.__notes__ == [f"the run in {out} is unchanged"]
    assert simulate.run(scenario, out=out, resume=True).manifest.status == "done"


@pytest.mark.parametrize(
    ("where", "messages"),
    [
        ("fleetsim.simulate.run", ["interrupted; begin again with: fleetsim run"]),
        (
            "fleetsim.report.pages.run_page.write_report",
            ["note: {out}: the run is complete, there is nothing to resume",
             "interrupted: the run is complete, its report is not; write it with: fleetsim report"],
        ),
    ],
    ids=["before the run", "after the run"],
)  # fmt: skip
def test_ctrl_c_outside_of_the_run_says_what_to_do(
    where, messages, scenario, whole, tmp_path, monkeypatch, command
):
    out = tmp_path / "run"
    shutil.copytree(whole.folder, out)
    monkeypatch.setattr(where, interrupt)

    ended = command("run", tmp_path / "small.yaml", "--out", out, "--resume")

    assert ended.code == 130
    for line, begin in zip(ended.err.splitlines(), messages, strict=True):
        assert line.startswith(begin.format(out=out))
