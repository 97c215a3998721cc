from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import ModelCost, SampleForm
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.vision import Residual, ShuffleDownUnit, ShuffleUnit

CIFAR = (3, 32, 32)
SMALL = (3, 9, 9)


def build(
    model: models.ModelSettings, shape: tuple[int, ...] = CIFAR, num_classes: int = 10
) -> nn.Module:
    return build_model(model, SampleForm(shape, num_classes), seed=0)


@cache
def cost_of(
    model: models.ModelSettings, shape: tuple[int, ...] = CIFAR, num_classes: int = 10
) -> ModelCost:
    return model_cost(build(model, shape, num_classes), shape)


def noise(*shape: int) -> Tensor:
    return torch.from_numpy(rng.stream(1, "test", 0).standard_normal(shape, np.float32))


def test_only_the_stem_divides_resnet18_from_its_published_form() -> None:
    # torchvision's metadata of the weights ResNet18_Weights.IMAGENET1K_V1, with a 7x7 stem
    published = 11_689_512

    ours = cost_of(models.ResNet18Settings(), num_classes=1000).num_parameters

    assert published - ours == 64 * 3 * (7 * 7 - 3 * 3)


def test_a_narrow_resnet18_spends_the_square_of_its_width_behind_the_stem() -> None:
    stem = 2 * 32 * 32 * 64 * 27
    whole = cost_of(models.ResNet18Settings()).forward_flop

    narrow = cost_of(models.ResNet18Settings(width=16)).forward_flop

    # both channels of a convolution are a quarter; those of the image are not
    assert narrow["conv"] == (whole["conv"] - stem) / 16 + stem / 4
    assert narrow["gemm"] == 2 * 128 * 10


@pytest.mark.parametrize(
    ("model", "published_gmac"),
    [
        # da2so/DA2Lite@55685a7, model_zoo/README.md, to two digits
        (models.ResNet18Settings(), 0.56),
        (models.Vgg16Settings(), 0.31),
    ],
)
def test_networks_cost_the_published_multiply_adds(model, published_gmac):
    assert abs(sum(cost_of(model).forward_flop.values()) / 2e9 - published_gmac) <= 0.005


def test_behind_its_stem_shufflenet_costs_what_is_published_for_224_pixels() -> None:
    # Ma et al. 2018, table 8: 146 M multiply-adds; torchvision's meta["_ops"]: 0.145 G. There a
    # stem of stride 2 and a maximum bring 224 pixels to 56 before the first stage.
    here = sum(cost_of(models.ShuffleNetV2Settings(), (3, 56, 56), 1000).forward_flop.values()) / 2
    stem_here, stem_there = 56 * 56 * 24 * 27, 112 * 112 * 24 * 27

    assert abs((here - stem_here + stem_there) / 1e9 - 0.145) <= 0.0005


def test_a_residual_block_without_a_body_is_the_relu_of_its_input() -> None:
    blocks = [m for m in build(models.ResNet18Settings()).modules() if isinstance(m, Residual)]
    maps = noise(2, 64, 8, 8)
    with torch.no_grad():
        for block in blocks[:2]:
            block.body.norm2.weight.zero_()  # type: ignore[union-attr, operator]
        out = blocks[1](blocks[0](maps))

    assert len(blocks) == 8
    torch.testing.assert_close(out, maps.relu())


def test_shuffle_units_interleave_what_they_pass_and_what_they_work_on() -> None:
    """A unit passes the first half of the channels; one that halves the image works on all."""
    maps = noise(2, 6, 4, 4)
    out = ShuffleUnit(nn.ReLU())(maps)
    down = ShuffleDownUnit(nn.AvgPool2d(2), nn.MaxPool2d(2))(maps)

    assert torch.equal(out[:, 0::2], maps[:, :3])
    assert torch.equal(out[:, 1::2], maps[:, 3:].relu())
    assert torch.equal(down[:, 0::2], nn.AvgPool2d(2)(maps))
    assert torch.equal(down[:, 1::2], nn.MaxPool2d(2)(maps))


@pytest.mark.parametrize(
    "kind", [models.ResNet18Settings, models.Vgg16Settings, models.ShuffleNetV2Settings]
)
def test_the_setting_chooses_the_normalisation_of_every_layer(kind):
    with torch.device("meta"):
        group, batch = (kind(norm=norm).build(SampleForm(CIFAR, 10)) for norm in ("group", "batch"))
    groups = [layer for layer in group.modules() if isinstance(layer, nn.GroupNorm)]
    batches = [layer for layer in batch.modules() if isinstance(layer, nn.BatchNorm2d)]

    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in group.modules())
    assert {layer.num_groups for layer in groups} == {2}
    assert [g.num_channels for g in groups] == [b.num_features for b in batches]
