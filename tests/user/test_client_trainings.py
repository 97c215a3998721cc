"""Own training of clients as a plug-in: from Python, by name, resumed, and refused."""

import importlib
import sys
from typing import Any, ClassVar

import numpy as np
import pytest

import fleetsim
from fleetsim.contracts import Wire
from fleetsim.errors import PluginError
from tests.interrupts import interrupted
from tests.trackers.test_following import SMALL, Notes, made
from tests.user.broken_client_trainings import Plain

OWN = '''
import numpy as np
from fleetsim.contracts import Wire
from tests.user.broken_client_trainings import Plain


class Counting(Plain):
    """Plain SGD; clients count their tasks, and the server sums what they send."""

    train_factor = 1.5
    num_copies = 1

    def train_client(self, model, data, generator, settings):
        count = data.state.get("count", np.zeros(1)) + 1
        metrics = {"count": float(count[0]), "known": float(data.received["sum"][0])}
        update = super().train_client(model, data, generator, settings)
        return update._replace(state={"count": count}, sent={"count": count}, metrics=metrics)

    def wire(self, num_parameters):
        return Wire(download_byte=8, upload_byte=8)

    def start_server(self, start):
        return {"sum": np.zeros(1)}

    def broadcast(self, server):
        return server

    def server_step(self, server, step):
        total = sum(report.sent["count"] for report in step.reports)
        return step.after, {"sum": server["sum"] + total}
'''


@pytest.fixture
def own(own_module):
    sys.path.append(str(own_module(OWN, "mine").parent))
    return importlib.import_module("mine")


def run(own, **how):
    return fleetsim.run("small.yaml", progress=False, workers=1, **how)


@pytest.mark.slow
def test_it_replaces_the_training_from_python_and_by_name(own):
    given = run(own, local=own.Counting, out="given")
    named = run(own, plugin="mine:Counting", out="named")
    plain = run(own, out="plain")

    assert given.manifest.digest == named.manifest.digest != plain.manifest.digest
    assert given.scenario["task"]["local"]["algorithm"] == {"kind": "mine:Counting"}
    assert [(each.kind, each.name) for each in given.manifest.plugins] == [
        ("local", "mine:Counting")
    ]
    # The same training, and its arrays and factor.
    assert given.rounds.accuracy.tolist() == pytest.approx(plain.rounds.accuracy.tolist(), abs=0.01)
    assert (given.tasks.upload_byte - plain.tasks.upload_byte).tolist() == [8] * 12
    assert (given.tasks.train_flop / plain.tasks.train_flop).tolist() == [1.5] * 12


def test_what_clients_and_server_keep_goes_from_task_to_task(own):
    """Three clients, four rounds: a client's task k counts k; the server knows 0, 3, 9, 18."""
    metrics = run(own, local=own.Counting, out="run").tasks.train_metrics.tolist()

    expected = ((1, 0), (2, 3), (3, 9), (4, 18))
    assert metrics == [
        f'{{"count": {count}.0, "known": {known}.0}}' for count, known in expected for _ in range(3)
    ]


@pytest.mark.slow
def test_a_resumed_run_continues_what_was_kept(own):
    whole = run(own, local=own.Counting, out="whole")

    part = {"overrides": {"checkpoint.every_rounds": 2}, "local": own.Counting, "out": "part"}
    interrupted(run, own, after=3, **part)

    assert run(own, resume=True, **part).manifest.digest == whole.manifest.digest


def other_shapes(self, model, data, generator, settings):
    update = Plain.train_client(self, model, data, generator, settings)
    return update._replace(state={"count": np.zeros(data.client + 1)}, sent={"count": np.ones(1)})


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "TooMuch": ({"wire": lambda self, num_parameters: Wire(download_byte=8, upload_byte=4)},
        "TooMuch: ClientUpdate.sent has 8 bytes, and wire says at most 4"),
    "TooMuchDown": ({"wire": lambda self, num_parameters: Wire(upload_byte=8)},
        "TooMuchDown: broadcast has 8 bytes, and wire says at most 0"),
    "OtherShapes": ({"train_client": other_shapes},
        "OtherShapes: ClientUpdate.state of client 1 is .* must keep arrays of the same"),
    "NoModel": ({"server_step": lambda self, server, step: server},
        r"NoModel: server_step must return \(model, arrays\), got dict"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_ends_the_run_with_one_line(own, name):
    methods, message = BROKEN[name]
    with pytest.raises(PluginError, match=message) as fault:
        run(own, local=type(name, (own.Counting,), methods), out="run")
    assert "\n" not in str(fault.value)


def test_it_needs_no_part_on_the_server(own_module):
    own_module(
        "from fleetsim.contracts import ClientUpdate\n"
        "class Still:\n"
        "    def train_client(self, model, data, generator, settings):\n"
        "        return ClientUpdate(loss=2.5)\n",
        "still",
    )
    done = fleetsim.run("small.yaml", plugin="still:Still", out="run", progress=False, workers=1)

    assert done.rounds.accuracy.nunique() == 1
    assert set(done.tasks.train_loss) == {2.5}
    assert "train_metrics" not in done.tasks
    assert np.isfinite(done.rounds.loss).all()
    assert "still" in sys.modules


@pytest.mark.slow
def test_a_tracker_of_ones_own_is_a_plug_in_that_affects_no_result(tmp_path, own_module, command):
    """The command names the class, and the manifest has it; the hash is that without it."""
    own_module(
        "class Told:\n"
        "    def begin(self, run):\n        print('begins', run.num_rounds)\n"
        "    def round(self, row):\n        print('round', row.round)\n"
        "    def end(self, run):\n        print(run.status)\n",
        name="told",
    )
    sets = [word for change in SMALL for word in ("--set", change)]
    words = ["run", "quickstart", "--no-train", "--no-report", *sets, "--out", tmp_path / "run"]
    ended = command(*words, "--plugin", "told:Told")
    plain = made(tmp_path / "plain").manifest
    manifest = fleetsim.open_run(tmp_path / "run").manifest

    told = ["begins 0", *(f"round {n}" for n in range(1, 5)), "done"]
    assert [line for line in ended.err.splitlines() if line in told] == told
    assert [(own.kind, own.affects_results) for own in manifest.plugins] == [("tracker", False)]
    assert (manifest.scenario_hash, manifest.digest) == (plain.scenario_hash, plain.digest)


def test_python_may_give_a_class_too(tmp_path):
    class Loud(Notes):
        told: ClassVar[list[int]] = []

        def round(self, row):
            self.told.append(row.round)

    made(tmp_path / "run", Loud)

    assert Loud.told == [1, 2, 3, 4]
