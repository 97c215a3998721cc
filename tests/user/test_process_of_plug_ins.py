"""Process in which plug-ins are called: as it was before, whatever they do to it."""

import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fleetsim.errors import PluginError
from fleetsim.host.turns import Environment, turn
from fleetsim.host.user_code import printing_to_stderr, user_code
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.studies.backends import LocalProcesses, RemoteTasks
from fleetsim.studies.execution import execute
from fleetsim.studies.run_process import output_of
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from tests.studies.small_studies import Silent


def test_processes_that_code_of_ones_own_begins_end_as_they_like():
    with user_code("mine: f"):
        end = os._exit
        forked = os.fork()
        if forked == 0:
            end(7)
        _, status = os.waitpid(forked, 0)
        again = os.fork()
        if again == 0:
            os.execlp("sh", "sh", "-c", "exit 8")
        _, replaced = os.waitpid(again, 0)

        with multiprocessing.get_context("fork").Pool(1) as pool:
            answer = pool.apply(sys.getprofile)

    assert [os.waitstatus_to_exitcode(each) for each in (status, replaced)] == [7, 8]
    assert answer is None


def test_a_process_that_a_network_forks_ends_after_the_pass(tmp_path):
    """Each went on with the training, and forked again: 2^n processes after n passes."""
    log = os.open(tmp_path / "log", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    forked = []

    class Forks(nn.Linear):
        def forward(self, inputs):
            forked.append(os.fork())
            os.write(log, b"x")
            return super().forward(inputs)

    module = Forks(3, 2)
    samples = torch.zeros(8, 3), torch.zeros(8, dtype=torch.int64)
    settings = LocalSettings(epochs=1, batch_size=1, optimizer=SgdSettings(learning_rate=0.1))
    passes = local_sgd.Passes(epochs=1, stream=np.random.default_rng(1))
    with user_code("mine"):
        local_sgd.train(module, flatten(module), *samples, settings, passes)
    for child in forked:
        os.waitpid(child, 0)

    assert (tmp_path / "log").stat().st_size == 8 + 8  # passes of this process and of its own


def test_what_it_prints_in_a_command_goes_to_stderr(capsys):
    with printing_to_stderr(), user_code("mine: f"):
        sys.stdout.write("seen")
    with user_code("mine: f"):
        sys.stdout.write("result")

    assert capsys.readouterr() == ("result", "seen")


def test_a_call_leaves_the_process_as_it_was(tmp_path):
    """And a run leaves the environment."""
    here, out, term = Path.cwd(), sys.stdout, signal.getsignal(signal.SIGTERM)
    environment, path = dict(os.environ), list(sys.path)
    with turn(Environment):
        os.environ.pop("PATH")
        os.environ["MINE"] = "1"
    with user_code("mine: f"):
        os.chdir(tmp_path)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.alarm(60)
        sys.stdout = None
        threading.excepthook = None  # type: ignore[assignment]
        sys.path.clear()
        np.seterr(over="raise")
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)

    assert dict(os.environ) == environment
    assert sys.path == path
    assert (Path.cwd(), sys.stdout, signal.getsignal(signal.SIGTERM)) == (here, out, term)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    threading.Thread(target=int).start()
    assert np.geterr()["over"] != "raise"
    assert torch.zeros(1).device.type == "cpu"
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()


def test_a_folder_that_is_gone_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    os.chdir(home)

    @user_code("mine: f")
    def leave():
        os.chdir(tmp_path)
        home.rmdir()

    with pytest.raises(PluginError, match=r"f leaves the folder .*, which is no longer there"):
        leave()


WILD = """
import os, signal, sys, time
import fleetsim
class Base(fleetsim.Selector):
    def select(self, view):
        self.act()
        return view.candidates[:view.wanted]
    def act(self): pass
class Exits(Base):
    def act(self): sys.exit(0)
class Wild(Base):
    def act(self):
        print("printed by", type(self).__name__)
        os.chdir("/"); os.environ["WILD"] = "1"; os.fork()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Looks(Base):
    def act(self): assert "WILD" not in os.environ and os.getcwd() != "/"
class Hangs(Base):
    def act(self):
        print("begins to wait", flush=True)
        while True: time.sleep(1)
"""


def study_of(*arms):
    plugins = [f"own:{arm}" for arm in arms]
    return load_study(
        {
            "name": "wild", "question": "Which?", "scenario": "small.yaml", "seeds": [1],
            "train": False,
            "arms": {"plain": {}} | {arm: {"server.selector.kind": f"own:{arm}"} for arm in arms},
        },
        plugin=plugins,
    )  # fmt: skip


@pytest.mark.slow
def test_plug_ins_of_one_run_do_not_reach_the_others(own_module):
    own_module(WILD, "own")
    study, store = study_of("Wild", "Looks", "Exits"), RunStore(Path("home"))

    done = execute(study, store, LocalProcesses(1), Silent())

    runs = {planned.arm: planned for planned in study.runs}
    assert set(done.failures) == {runs["Exits"].key}
    assert "select fails: SystemExit: 0 (" in done.failures[runs["Exits"].key]
    assert done.num_made == 3
    assert "printed by Wild" in output_of(store.folder(runs["Wild"])).read_text()
    assert not output_of(store.folder(runs["Looks"])).exists()


@pytest.mark.slow
def test_a_run_that_hangs_is_ended_and_has_failed(own_module):
    own_module(WILD, "own")
    study, store = study_of("Hangs"), RunStore(Path("home"))
    plain, hangs = study.runs
    execute(study.with_seeds([1]), store, LocalProcesses(1), Silent(), timeout_s=6.0)

    hung = output_of(store.folder(hangs))
    reason = store.failures("wild")[hangs.key]
    assert reason.startswith("took longer than --timeout-s 6 s, and was ended")
    assert store.status(hangs) != "done"
    assert plain.key not in store.failures("wild") or store.status(plain) != "done"
    assert hung.read_text() in ("", "begins to wait\n")  # a slow machine has not come so far


@pytest.mark.slow
@pytest.mark.long
def test_an_executor_that_is_full_of_hanging_runs_is_left(own_module):
    """A thread cannot be ended: the run fails, and so do those that wait for its place."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    text = WILD.replace("while True: time.sleep(1)", "time.sleep(12)")
    own_module(text, "own")
    study = study_of("Hangs")
    with ThreadPoolExecutor(1) as pool:
        reversed_ = study.with_seeds([1, 2])
        done = execute(reversed_, RunStore(Path("home")), RemoteTasks(pool), Silent(), timeout_s=8)

    assert any("took longer than --timeout-s 8 s" in why for why in done.failures.values())
    assert done.num_made + len(done.failures) == 4


def test_a_stream_that_code_closes_is_open_again_for_the_message(monkeypatch, capfd):
    """In a command sys.stdout is sys.stderr for the code, and both are the interpreter's own."""
    stream = os.fdopen(2, "w", closefd=False)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "__stderr__", stream)

    message = "mine closes sys.stdout or sys.stderr, which are not its own"
    with printing_to_stderr(), pytest.raises(PluginError, match=message), user_code("mine"):
        sys.stdout.close()

    assert stream.closed
    sys.stderr.write("seen\n")
    assert capfd.readouterr().err == "seen\n"


def test_a_descriptor_that_code_closes_is_taken_by_no_other_file(tmp_path, capfd):
    message = "mine closes the descriptor of a standard stream, which is not its own; leave it open"
    with pytest.raises(PluginError, match=message), user_code("mine"):
        os.close(1)

    with (tmp_path / "table").open("w") as table:
        assert table.fileno() > 2
