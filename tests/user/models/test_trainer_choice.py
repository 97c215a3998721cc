import re
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from torch import Tensor, nn

from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.training.settings import TrainerKind, TrainerSettings
from fleetsim.training.trainer_choice import TrainerQuestion
from fleetsim.user.models.trainer_choice import choose_user_trainer
from fleetsim.user.models.user_cost import counted_cost
from tests.learning.given_networks import IMAGES, VECTORS
from tests.training.test_equivalence import MixesSamples, ReadsLayers


def chosen(
    module: nn.Module,
    samples: SampleForm = VECTORS,
    *,
    requested: Literal["auto"] | TrainerKind = "auto",
    batch_size: int = 4,
    device: str = "cpu",
) -> tuple[TrainerKind, str]:
    sgd = SgdSettings(learning_rate=0.1)
    local = LocalSettings(epochs=1, batch_size=batch_size, optimizer=sgd)
    cost = counted_cost(module, samples)
    return choose_user_trainer(
        TrainerQuestion(
            TrainerSettings(kind=requested),
            module,
            samples,
            cost,
            np.array([batch_size]),
            local,
            device,
        )
    )


def chain() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def gelu() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3))


def dropping() -> nn.Module:
    return nn.Sequential(gelu(), nn.Dropout())


def convolved() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))


def depthwise() -> nn.Module:
    layers = nn.Conv2d(1, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.Flatten(), nn.Linear(144, 3)
    return nn.Sequential(*layers)


class WithLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.lstm(inputs[:, None])[0][:, -1])
        return logits


@pytest.mark.parametrize(
    ("make", "samples", "batch_size", "device", "kind"),
    [
        (chain, VECTORS, 4, "cpu", "stacked"),
        (gelu, VECTORS, 4, "cpu", "vectorised"),
        # 30 multiply-adds in the first layer, 15 in the second: 45 FLOP a layer and sample.
        (gelu, VECTORS, 33_333, "cpu", "vectorised"),
        (gelu, VECTORS, 33_334, "cpu", "serial"),
        (gelu, VECTORS, 33_334, "cuda", "vectorised"),
        (convolved, IMAGES, 4, "cpu", "vectorised"),
        (convolved, IMAGES, 1000, "cpu", "channels-last"),
        (depthwise, IMAGES, 4, "cpu", "channels-last"),
        (depthwise, IMAGES, 4, "cuda", "vectorised"),
    ],
)
def test_the_fastest_by_the_rule_is_chosen(make, samples, batch_size, device, kind):
    trainer, reason = chosen(make(), samples, batch_size=batch_size, device=device)

    assert trainer == kind
    assert re.fullmatch(
        "none is faster for such a network"
        if kind == "serial"
        else "equal to serial within .* in float64, bound 1e-09",
        reason,
    )


@pytest.mark.parametrize(
    ("make", "samples", "message"),
    [
        (MixesSamples, VECTORS, "vectorised is not proved equal: it differs from serial by"),
        (WithLstm, VECTORS, r"the layer lstm \(LSTM\) is recurrent"),
        (dropping, VECTORS, r"the network draws random numbers \(torch\) in training"),
    ],
)
def test_a_network_that_no_other_trains_equally_is_trained_serially(make, samples, message):
    trainer, reason = chosen(make(), samples)

    assert trainer == "serial"
    assert re.search(message, reason)
    assert "\n" not in reason


def test_the_next_candidate_is_tried_where_the_first_fails() -> None:
    assert chosen(ReadsLayers(), IMAGES)[0] == "vectorised"
    assert chosen(ReadsLayers(), IMAGES, batch_size=10_000)[0] == "serial"


@pytest.mark.parametrize("requested", ["serial", "vectorised", "stacked"])
def test_a_named_trainer_is_taken_if_it_is_proved(requested: TrainerKind) -> None:
    assert chosen(chain(), requested=requested, batch_size=100_000)[0] == requested


@pytest.mark.parametrize(
    ("make", "requested", "device", "message"),
    [
        (MixesSamples, "vectorised", "cpu", "not proved equal to serial for MixesSamples: it diff"),
        (gelu, "stacked", "cpu", "only chains of linear layers"),
        (dropping, "vectorised", "cpu", "draws random numbers"),
        (gelu, "channels-last", "cuda", "trains on the CPU alone"),
        (gelu, "channels-last", "cpu", "is no image"),
    ],
)
def test_a_named_trainer_that_is_not_proved_is_refused_in_one_line(
    make: Callable[[], nn.Module], requested: TrainerKind, device: str, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message) as fault:
        chosen(make(), requested=requested, device=device)

    (line,) = fault.value.faults
    assert line.startswith("trainer.kind: ")
