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
