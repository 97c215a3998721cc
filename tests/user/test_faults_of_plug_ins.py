"""Faults of plug-ins in a run: one line with file and line, and a process as it was before."""

import contextlib
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

import fleetsim
from fleetsim.errors import PluginError, ScenarioError
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
from tests.interrupts import interrupted
from tests.studies.small_studies import Silent

FAULTS = """
import os, sys, time
from pathlib import Path
from typing import Literal
import numpy as np
from torch import nn
from fleetsim.settings import Settings

def fail():
    raise {fault}  # the line that messages name

class Selector:
    needs_losses = needs_probes = False
    def setup(self, fleet): fail() if "setup" in AT else None; return ()
    def probe(self, view): fail() if "probe" in AT else None; return ()
    def select(self, view): fail() if "select" in AT else None; return view.candidates[:view.wanted]
    def observe(self, outcome): fail() if "observe" in AT else None
    def state(self): fail() if "state" in AT else None; return {{}}
    def restore(self, state): pass
    def diagnostics(self): fail() if "diagnostics" in AT else None; return {{}}

class Aggregator:
    def aggregate(self, base, reports): fail()

class Made:
    def __init__(self): fail()
    aggregate = None

class Tracker:
    def begin(self, run): pass
    def round(self, row): fail()
    def end(self, run): pass

class Own:
    class Settings(Settings):
        kind: Literal["own"] = "own"
        def __init__(self, **keys):
            super().__init__(**keys)
        def model_post_init(self, context): fail()
    def aggregate(self, base, reports): return base

class Client:
    def train_client(self, model, data, generator, settings): fail()

def split(labels, num_clients, generator): fail()
def load(): fail()
def net(samples): fail()
def losses(outputs, labels): fail()

class Net(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.head = nn.Linear(64, samples.num_classes)
        self.passes = 0
    def forward(self, images):
        if len(images) > 100: fail()  # the server's test set alone
        return self.head(images.flatten(1))

AT = {at!r}
if AT == "import": fail()
"""
_LINE = 1 + FAULTS.splitlines().index("    raise {fault}  # the line that messages name")
PLACES = {
    "dataset=own:load": "", "partition=own:split": "", "model=own:net": "", "own:Net": "",
    "loss=own:losses": "", "own:Aggregator": "", "own:Made": "", "own:Tracker": "",
    "own:Client": "", "own:Own": "",
}  # fmt: skip
METHODS = ("setup", "probe", "select", "observe", "state", "diagnostics")
CASES = [*PLACES.items(), *(("own:Selector", at) for at in METHODS), ("own:Selector", "import")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "at"), CASES)
def test_a_fault_is_one_line_with_its_file_and_line(own_module, command, name, at):
    """A plug-in that ends the process without a word ends as any other fault does."""
    path = own_module(FAULTS.format(fault="SystemExit(0)", at=at), "own")
    changes = ["--set", "server.aggregator={kind: own}"] if name == "own:Own" else []
    ended = command(
        "run", "small.yaml", "--plugin", name, *changes, "--workers", "2", "--no-report",
        "--out", "out",
    )  # fmt: skip

    assert ended.code == 2
    (line,) = [line for line in ended.err.splitlines() if line.startswith("error")]
    assert "SystemExit: 0" in line
    assert f"({path}, line {_LINE})" in line


@pytest.mark.parametrize(
    "fault", ["RuntimeError('oh')", "RecursionError", "MemoryError", "StopIteration",
              "GeneratorExit", "SystemExit(1)", "BaseException", "ScenarioLess()"]
)  # fmt: skip
def test_every_exception_of_a_plug_in_is_its_fault(own_module, command, fault):
    text = "class ScenarioLess(BaseException):\n    def __str__(self): raise ValueError\n"
    own_module(text + FAULTS.format(fault=fault, at="select"), "own")
    ended = command("run", "small.yaml", "--no-train", "--plugin", "own:Selector", "--out", "out")

    assert ended.code == 2
    assert ended.err.startswith("error: --plugin own:Selector: select fails: ")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    "end", ["os._exit(0)", "os.abort()", "os.execlp('true', 'true')", "end(0)"]
)
def test_a_process_is_not_ended_in_silence(own_module, command, end):
    """Such a call ended a run with code 0 and no output, as if it were done."""
    text = FAULTS.replace("raise {fault}", "from os import _exit as end; {fault}")
    path = own_module(text.format(fault=end, at="select"), "own")
    before = os._exit, os.abort, os.execv, os.execve
    ended = command("run", "small.yaml", "--no-train", "--plugin", "own:Selector", "--out", "out")

    assert ended.code == 2
    assert "select fails: SystemExit: os." in ended.err
    assert f"({path}, line {_LINE})" in ended.err
    assert (os._exit, os.abort, os.execv, os.execve) == before


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

    class Forks(nn.Linear):
        def forward(self, inputs):
            os.fork()
            os.write(log, b"x")
            return super().forward(inputs)

    module = Forks(3, 2)
    samples = torch.zeros(8, 3), torch.zeros(8, dtype=torch.int64)
    settings = LocalSettings(epochs=1, batch_size=1, optimizer=SgdSettings(learning_rate=0.1))
    passes = local_sgd.Passes(epochs=1, stream=np.random.default_rng(1))
    with user_code("mine"):
        local_sgd.train(module, flatten(module), *samples, settings, passes)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()

    assert (tmp_path / "log").stat().st_size == 8 + 8  # passes of this process and of its own


def test_ctrl_c_and_errors_of_fleetsim_pass_and_others_name_the_innermost_line_outside_libraries():
    for passing in (KeyboardInterrupt, ScenarioError):
        with pytest.raises(passing), user_code("mine: f"):
            raise passing
    singular = rf"LinAlgError: Singular matrix \({__file__}, line "
    with pytest.raises(PluginError, match=singular), user_code("mine: f"):
        np.linalg.inv(np.zeros((2, 2)))


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


UNSEEDED = """
import numpy as np
from torch import nn
import fleetsim, torch
from tests.user.small import digits_again

def load():
    return digits_again(np.random.default_rng())
def global_split(labels, num_clients, generator):
    return np.array_split(np.random.permutation(len(labels)), num_clients)
def split(labels, num_clients, generator):
    return np.array_split(np.random.default_rng().permutation(len(labels)), num_clients)
class Net(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.head = nn.Linear(64, samples.num_classes)
        noise = np.random.default_rng().normal(size=(samples.num_classes, 64))
        self.head.weight.data = torch.from_numpy(noise.astype(np.float32))
    def forward(self, images): return self.head(images.flatten(1))
class Aggregator:
    def aggregate(self, base, reports):
        return base + np.random.default_rng().normal(size=base.size).astype(np.float32)
class Selector(fleetsim.Selector):
    def select(self, view):
        return np.random.default_rng().choice(view.candidates, view.wanted, replace=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dataset=own:load", "load gives other data the second time"),
        ("own:global_split", "split draws from or seeds the global generator of numpy"),
        ("own:split", "split gives two results with equal draws"),
        ("own:Net", "it is built with other weights the second time"),
        ("own:Aggregator", "aggregate of two objects gives two answers"),
        ("own:Selector", "select of two objects gives two answers"),
    ],
)
def test_a_run_refuses_draws_without_a_seed(own_module, name, message):
    own_module(UNSEEDED, "own")

    with pytest.raises(ScenarioError, match=message):
        fleetsim.run("small.yaml", plugin=name, out="out", progress=False)


CHANGING = """
from pathlib import Path
import numpy as np
from torch import nn

def split(labels, num_clients, generator):
    return np.array_split(np.roll(np.arange(len(labels)), int(Path("by").read_text())), num_clients)
class Net(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.head = nn.Linear(64, samples.num_classes)
        self.head.bias.data.fill_(float(Path("by").read_text()))
    def forward(self, images): return self.head(images.flatten(1))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [("own:split", "splits the data otherwise"), ("own:Net", "has other weights")],
)
def test_a_run_is_not_resumed_with_what_a_plug_in_gives_now(own_module, name, message):
    own_module(CHANGING, "own")
    Path("by").write_text("0")

    interrupted(fleetsim.run, "small.yaml", plugin=name, out="out", progress=False)
    Path("by").write_text("1")

    with pytest.raises(ScenarioError, match=f"^out: {name} {message} than when the run began; "):
        fleetsim.run("small.yaml", plugin=name, out="out", resume=True, progress=False)
    Path("by").write_text("0")
    done = fleetsim.run("small.yaml", plugin=name, out="out", resume=True, progress=False)
    assert done.manifest.status == "done"


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


def test_a_module_that_removes_itself_is_told(own_module, command):
    own_module("import sys\nsys.modules.pop(__name__)\nclass Own: pass\n", "own")
    ended = command("run", "small.yaml", "--no-train", "--plugin", "own:Own", "--out", "out")

    message = "removes own from sys.modules as it is imported; leave it there"
    assert (ended.code, ended.err) == (2, f"error: --plugin own:Own: {message}\n")
