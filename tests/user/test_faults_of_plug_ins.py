"""Faults of plug-ins in a run: one line with file and line."""

import os
from pathlib import Path

import numpy as np
import pytest

import fleetsim
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.host.user_code import user_code
from tests.interrupts import interrupted

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


def test_ctrl_c_and_errors_of_fleetsim_pass_and_others_name_the_innermost_line_outside_libraries():
    for passing in (KeyboardInterrupt, ScenarioError):
        with pytest.raises(passing), user_code("mine: f"):
            raise passing
    singular = rf"LinAlgError: Singular matrix \({__file__}, line "
    with pytest.raises(PluginError, match=singular), user_code("mine: f"):
        np.linalg.inv(np.zeros((2, 2)))


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


def test_a_module_that_removes_itself_is_told(own_module, command):
    own_module("import sys\nsys.modules.pop(__name__)\nclass Own: pass\n", "own")
    ended = command("run", "small.yaml", "--no-train", "--plugin", "own:Own", "--out", "out")

    message = "removes own from sys.modules as it is imported; leave it there"
    assert (ended.code, ended.err) == (2, f"error: --plugin own:Own: {message}\n")
