"""Runs of a network with frozen weights: a frozen backbone of 64 x 32 and a trained head."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fleetsim
from fleetsim.contracts import ClientUpdate
from fleetsim.errors import PluginError, ScenarioError

FROZEN_BYTE = 4 * (64 * 32 + 32)
TRAINED = 32 * 10 + 10
FEW: dict[str, Any] = {"stop.rounds": 3, "checkpoint.every_rounds": 1}


class Backbone(nn.Module):
    def __init__(self, samples: Any) -> None:
        super().__init__()
        self.body = nn.Linear(64, 32).requires_grad_(False)
        self.head = nn.Linear(32, samples.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.body(images.flatten(1))))
        return logits


def test_a_backbone_is_downloaded_once_and_the_head_in_every_round(tmp_path):
    done = fleetsim.run("quickstart", FEW, model=Backbone, out=tmp_path / "run")
    tasks = done.tasks.sort_values("task")
    delivered = tasks[tasks.outcome == "delivered"]
    first = delivered.drop_duplicates("client")
    later = delivered[delivered.duplicated("client")]

    assert set(delivered.download_byte) == set(delivered.upload_byte) == {4 * TRAINED}
    assert set(first.frozen_download_byte) == {FROZEN_BYTE}
    assert len(later) > 0
    assert set(later.frozen_download_byte) == {0}
    # Forward pass, and the gradient of the head's weights, over five epochs.
    per_sample = 2 * (64 * 32 + 32 * 10) + 2 * 32 * 10
    assert (delivered.train_flop == 5 * delivered.num_samples * per_sample).all()


ARMS: list[dict[str, Any]] = [
    {"task.local.algorithm": {"kind": "scaffold"}},
    {"task.local.algorithm": {"kind": "feddyn"}},
    {"task.local.algorithm": {"kind": "ditto"}},
    {"task.local.proximal_mu": 0.1, "task.local.max_gradient_norm": 1.0},
    {"server.aggregator": {"kind": "fedadam", "learning_rate": 0.01}},
    {"server.aggregator": {"kind": "krum", "num_byzantine": 1}, "server.minimum_reports": 5},
    {"server.compression": {"kind": "top-k", "fraction": 0.1, "error_feedback": True}},
    {"server.compression": {"kind": "quantise-8bit"}},
    {"server.secure_aggregation": {"kind": "secagg"}},
    {"server.selector": {"kind": "gpfl"}, "evaluate.validation_fraction": 0.1},
]


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: " ".join(map(str, arm.values())))
def test_every_part_works_on_the_trained_weights_alone(tmp_path, arm):
    """The model of the checkpoint has them, and the frozen ones stay where the network has them."""
    done = fleetsim.run("quickstart", FEW | arm, model=Backbone, out=tmp_path / "run")

    uploads = set(done.tasks[done.tasks.outcome == "delivered"].upload_byte)
    first = next(iter(arm))
    if first == "server.compression":
        # 33 of 330 entries of 8 byte, or 330 byte and one bucket.
        assert uploads == {8 * 33 if "top-k" in str(arm) else 330 + 8}
    elif first == "task.local.algorithm" and "scaffold" in str(arm):
        assert uploads == {2 * 4 * TRAINED}
    elif first not in ("server.secure_aggregation", "server.selector"):
        assert uploads == {4 * TRAINED}
    assert (done.tasks.groupby("client").frozen_download_byte.sum() <= FROZEN_BYTE).all()


@pytest.mark.slow
def test_a_run_resumes_with_the_same_frozen_weights_alone(tmp_path):
    samples = fleetsim.contracts.SampleForm((1, 8, 8), 10)
    net, other = Backbone(samples), Backbone(samples)
    other.head.load_state_dict(net.head.state_dict())
    whole = fleetsim.run("quickstart", FEW, model=net, out=tmp_path / "whole", workers=2)

    def stop(progress):
        if progress.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fleetsim.run("quickstart", FEW, model=net, out=tmp_path / "part", on_progress=stop)
    with pytest.raises(ScenarioError, match="the frozen weights of the network"):
        fleetsim.run("quickstart", FEW, model=other, out=tmp_path / "part", resume=True)
    resumed = fleetsim.run("quickstart", FEW, model=net, out=tmp_path / "part", resume=True)

    assert whole.manifest.digest == resumed.manifest.digest
    assert whole.manifest.frozen_sha256 is not None


class Unfreezes:
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> ClientUpdate:
        model.requires_grad_(True)
        return ClientUpdate(loss=1.0)


class Writes:
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> ClientUpdate:
        for weight in model.parameters():
            weight.data += 0.1
        return ClientUpdate(loss=1.0)


@pytest.mark.parametrize(
    ("local", "message"),
    [
        (Unfreezes, r"Unfreezes.train_client of client \d+ unfreezes body.bias \(requires_grad\)"),
        (Writes, r"Writes.train_client of client \d+ changes body.weight in training, which has"),
    ],
)
def test_training_of_ones_own_leaves_frozen_weights_alone(tmp_path, local, message):
    with pytest.raises(PluginError, match=message):
        fleetsim.run("quickstart", FEW, model=Backbone, local=local, out=tmp_path / "run")
