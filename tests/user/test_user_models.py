"""Networks of users in whole runs: from the command line, from Python, as a kind of the YAML."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fleetsim
from tests.interrupts import interrupted

NETS = """
from typing import Literal
from torch import nn
from torch.nn.functional import one_hot
from fleetsim.settings import Settings

class Dropping(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.linear = nn.Linear(64, samples.num_classes)
    def forward(self, images):
        return self.linear(self.drop(images.flatten(1)))

class Wide(nn.Sequential):
    class Settings(Settings):
        kind: Literal["wide"] = "wide"
        width: int = 16
        '''Units.'''
    def __init__(self, settings, samples):
        hidden, head = nn.LazyLinear(settings.width), nn.LazyLinear(samples.num_classes)
        super().__init__(nn.Flatten(), hidden, nn.GELU(), head)

def chain(samples):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, samples.num_classes))

def wrong(samples):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

def head(samples):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 8).requires_grad_(False), nn.BatchNorm1d(8), nn.Linear(8, 10)
    )

def across(logits, labels):
    apart = logits - logits.mean(dim=0)
    return (apart - one_hot(labels, logits.shape[-1])).square().sum(dim=1)
"""
DROPS = "trainer serial: the network draws random numbers (torch) in training, at the address of"
FEW = {"stop.rounds": 2, "checkpoint.every_rounds": 1}


class Plain(nn.Module):
    """A network that a notebook gives."""

    def __init__(self, samples: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(64, samples.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.linear(images.flatten(1))
        return logits


def run(tmp_path, name: str, **options: Any) -> fleetsim.Run:
    given = {"workers": 1, "progress": False, "out": tmp_path / name, **options}
    return fleetsim.run("quickstart", given.pop("overrides", FEW), **given)


@pytest.mark.slow
def test_runs_of_one_and_two_processes_and_of_two_parts_are_equal(own_module, tmp_path) -> None:
    own_module(NETS, "nets")
    name = "nets:Dropping"
    one, two = (run(tmp_path, str(n), plugin=name, workers=n) for n in (1, 2))
    interrupted(run, tmp_path, "parts", plugin=name)
    torch.rand(3)
    parts = run(tmp_path, "parts", plugin=name, resume=True)

    assert one.manifest.digest == two.manifest.digest == parts.manifest.digest is not None
    assert one.manifest.trainer == "serial"
    assert "draws random numbers (torch) in training" in str(one.manifest.trainer_reason)
    assert one.scenario["task"]["model"] == {"kind": name}
    assert [plugin.kind for plugin in one.manifest.plugins] == ["model"]


@pytest.mark.slow
def test_classes_functions_and_objects_are_given_from_python(tmp_path) -> None:
    def small(samples: Any) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, samples.num_classes))

    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    before = [value.clone() for value in network.parameters()]

    by_class, by_function = run(tmp_path, "a", model=Plain), run(tmp_path, "b", model=small)
    by_object = [run(tmp_path, name, model=network) for name in ("c", "d")]

    # Both draw the same weights of one layer.
    assert by_class.rounds["accuracy"].equals(by_function.rounds["accuracy"])
    # A run works on a copy: the second begins with the same weights.
    assert by_object[0].manifest.digest == by_object[1].manifest.digest
    assert all(map(torch.equal, network.parameters(), before))


@pytest.mark.slow
def test_validate_says_the_trainer_and_why(own_module, command):
    own_module(NETS, "nets")
    users = [
        command("validate", "small.yaml", "--plugin", f"nets:{name}").out.splitlines()
        for name in ("Dropping", "chain", "across", "head")
    ]
    plain = command("validate", "small.yaml").out.splitlines()
    wrong = command("validate", "small.yaml", "--plugin", "nets:wrong")
    kind = ("--plugin", "nets:Wide", "--set", "task.model={kind: wide, width: 8}")
    wide = command("validate", "small.yaml", *kind).out.splitlines()

    rows = [[" ".join(line.split()) for line in lines] for lines in users]
    assert rows[0][-2].startswith(DROPS)
    assert rows[1][-2].startswith("trainer stacked: equal to serial within ")
    assert users[1][-2].endswith("in float64, bound 1e-09, on the CPU")
    # Digits: 4 byte for each of 64 x 10 + 10 weights; 8 x 10 + 10 and scale and shift of 8, over
    # 64 x 8 + 8 frozen ones, with mean and variance of 8.
    assert rows[1][-1] == "weights 2,600 byte trained, 0 byte frozen, 0 byte of buffers"
    assert rows[3][-1] == "weights 424 byte trained, 2,080 byte frozen, 64 byte of buffers"
    # 64 x 8 + 8 and 8 x 10 + 10.
    assert (
        " ".join(wide[-1].split()) == "weights 2,440 byte trained, 0 byte frozen, 0 byte of buffers"
    )
    assert rows[2][-1].startswith("trainer serial: vectorised is not proved equal with the loss")
    # The label is as wide as the others.
    assert (
        users[1][-3].index("seed") == users[1][-2].index("stacked") == users[1][-1].index("2,600")
    )
    # The trainer of fleetsim's own networks goes without saying; weights without a frozen one, too.
    assert [len(lines) - len(plain) for lines in users] == [2, 2, 1, 2]
    assert wrong.code == 2
    assert "nets:wrong: its forward pass returns the shape (2, 3)" in wrong.err


def test_validate_needs_no_data_set_that_is_not_there(own_module, command, monkeypatch, tmp_path):
    own_module(NETS, "nets")
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path / "nothing"))
    words = ("--plugin", "nets:chain", "--set", "task.dataset={kind: cifar10}")
    ended = command("validate", "small.yaml", *words)

    assert ended.code == 0
    last = ended.out.splitlines()[-1]
    assert last.startswith("trainer     chosen by the form of the samples, and ")
    assert "cifar10" in last


@pytest.mark.slow
def test_run_says_it_as_it_begins_and_not_when_there_is_nothing_to_train(own_module, command):
    own_module(NETS, "nets")
    words = ("run", "small.yaml", "--plugin", "nets:Dropping", "--no-report", "--workers", "1")
    first = command(*words, "--out", "one")
    again = command(*words, "--out", "one", "--resume")
    untrained = command(*words, "--out", "two", "--no-train")
    plain = command("run", "small.yaml", "--no-report", "--workers", "1", "--out", "three")

    assert first.code == again.code == untrained.code == plain.code == 0
    assert DROPS in first.err
    for other in (again, untrained, plain):
        assert "trainer" not in other.err
