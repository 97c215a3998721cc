"""Wrong answers of parts of the user's own during a run: one line with their name and file."""

import sys

import pytest

from fleetsim.contracts import Wire
from fleetsim.errors import PluginError
from fleetsim.interactive import run
from fleetsim.learning.local.algorithms.scaffold import Scaffold

PLUGIN = """
from fleetsim.contracts import ProbeRequest, Work, WorkKind

class Twice:
    needs_losses = needs_probes = False
    def setup(self, fleet): return ()
    def probe(self, view): return 2 * [ProbeRequest(0, Work(WorkKind.NONE))]
    def select(self, view): return view.candidates[: view.wanted]
    def observe(self, outcome): pass
    def state(self): return {}
    def restore(self, state): pass

class Fails(Twice):
    def probe(self, view): return ()
    def observe(self, outcome): raise ValueError(f"round {outcome.round}")
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Twice", "probe must return one ProbeRequest for each client, got [0, 0]"),
        ("Fails", "observe fails: ValueError: round 1"),
    ],
)
def test_a_wrong_answer_of_a_selector_is_one_line_of_the_user(
    name, text, scenario, tmp_path, command, monkeypatch
):
    (tmp_path / "selectors_of_mine.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    plugin, out = ["--plugin", f"selectors_of_mine:{name}"], tmp_path / "run"
    ended = command("run", tmp_path / "small.yaml", "--no-train", "--out", out, *plugin)
    (line,) = ended.err.splitlines()
    sys.modules.pop("selectors_of_mine", None)

    assert ended.code == 2
    assert line.startswith(f"error: --plugin selectors_of_mine:{name}: ")
    assert text in line
    assert str(tmp_path / "selectors_of_mine.py") in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "answer", "text"),
    [
        ("wire", lambda *_: 650, "must return a Wire of whole numbers, got 650"),
        ("wire", lambda *_: Wire(download_byte=0.5),
         "must return a Wire of whole numbers, got Wire(download_byte=0.5"),
        ("server_step", lambda self, server, step: ("model", server),
         "must return a model of floats of shape (650,), got 'model'"),
        ("server_step", lambda self, server, step: (step.after, server["no such array"]),
         "fails: KeyError: 'no such array'"),
    ],
)  # fmt: skip
def test_a_wrong_answer_of_a_training_is_one_line_of_the_user(
    method, answer, text, scenario, tmp_path
):
    training = type("Mine", (Scaffold,), {method: answer})
    with pytest.raises(PluginError) as caught:
        run(scenario, out=tmp_path / "run", local=training, workers=1)

    line = str(caught.value)
    assert line.startswith(f"local {__name__}:Mine: {method} {text}")
    assert __file__ in line
    assert "\n" not in line
