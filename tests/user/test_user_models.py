"""Networks of users in whole runs: from the command line, from Python, as a kind of the YAML."""

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fleetsim
from fleetsim.errors import ScenarioError
from tests.interrupts import interrupted

NETS = """
from typing import Literal
from torch import nn
from fleetsim.settings import Settings

class Dropping(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.LazyLinear(12), nn.Dropout(0.2), nn.Linear(12, samples.num_classes)
        )

    def forward(self, images):
        return self.layers(images)

class Wide(nn.Module):
    class Settings(Settings):
        kind: Literal["wide"] = "wide"
        width: int = 16
        '''Units.'''

    def __init__(self, settings, samples):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.LazyLinear(settings.width), nn.GELU(),
            nn.LazyLinear(samples.num_classes),
        )

    def forward(self, images):
        return self.layers(images)

def linear(samples):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(samples.num_classes))
"""
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


@pytest.fixture(scope="module")
def of_one_process(tmp_path_factory):
    """Return the run of a network of `NETS`, made once."""
    home = tmp_path_factory.mktemp("one")
    return functools.cache(lambda name: run(home, name.replace(":", "-"), plugin=name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trainer", "reason"),
    [
        ("nets:Dropping", "serial", "draws random numbers (torch) in training"),
        ("nets:linear", "stacked", "equal to serial within"),
    ],
)
def test_runs_of_one_and_two_processes_are_equal_and_the_manifest_says_why(
    own_module, of_one_process, tmp_path, name: str, trainer: str, reason: str
) -> None:
    own_module(NETS, "nets")

    one = of_one_process(name)
    two = run(tmp_path, "two", plugin=name, workers=2)

    assert one.manifest.digest == two.manifest.digest is not None
    assert one.manifest.trainer == trainer
    assert reason in str(one.manifest.trainer_reason)
    assert one.scenario["task"]["model"] == {"kind": name}
    assert [plugin.kind for plugin in one.manifest.plugins] == ["model"]


@pytest.mark.slow
def test_an_interrupted_run_of_a_network_with_dropout_continues_to_the_same_digest(
    own_module, of_one_process, tmp_path
) -> None:
    own_module(NETS, "nets")
    whole = of_one_process("nets:Dropping")

    interrupted(run, tmp_path, "parts", plugin="nets:Dropping")
    torch.rand(3)
    parts = run(tmp_path, "parts", plugin="nets:Dropping", resume=True)

    assert parts.manifest.digest == whole.manifest.digest is not None


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


def test_a_broken_network_leaves_no_run_folder(tmp_path) -> None:
    class Unused(Plain):
        def __init__(self, samples: Any) -> None:
            super().__init__(samples)
            self.spare = nn.Linear(2, 2)

    with pytest.raises(ScenarioError, match=r"model .*Unused: the loss does not depend on spare"):
        run(tmp_path, "none", model=Unused)

    assert not (tmp_path / "none").exists()
