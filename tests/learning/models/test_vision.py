"""Published image networks: size, cost, structure, normalisation, gradients."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fleetsim import rng
from fleetsim.contracts import BoolArray, ModelCost, Parameters, SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    ModelSettings,
    ResNet18Settings,
    ShuffleNetV2Settings,
    Vgg16Settings,
)
from fleetsim.learning.models.vision import (
    Residual,
    ShuffleDownUnit,
    ShuffleUnit,
    interleave,
)

CIFAR = (3, 32, 32)
SMALL = (3, 9, 9)
KINDS: list[type[ResNet18Settings] | type[Vgg16Settings] | type[ShuffleNetV2Settings]] = [
    ResNet18Settings,
    Vgg16Settings,
    ShuffleNetV2Settings,
]


def build(model: ModelSettings, shape: tuple[int, ...] = CIFAR, num_classes: int = 10) -> nn.Module:
    return build_model(model, input_shape=shape, num_classes=num_classes, seed=0)


@cache
def cost_of(
    model: ModelSettings, shape: tuple[int, ...] = CIFAR, num_classes: int = 10
) -> ModelCost:
    return model_cost(build(model, shape, num_classes), shape)


def noise(*shape: int, address: int = 0) -> Tensor:
    return torch.from_numpy(rng.stream(1, "test", address).standard_normal(shape, np.float32))


# --- size ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "num_classes", "published"),
    [
        # kuangliu/pytorch-cifar@c7c3518, models/resnet.py, vgg.py and shufflenetv2.py
        (ResNet18Settings(), 10, 11_173_962),
        (Vgg16Settings(), 10, 14_728_266),
        (ShuffleNetV2Settings(), 10, 1_263_854),
        # torchvision's metadata of the weights ShuffleNet_V2_X1_0_Weights.IMAGENET1K_V1
        (ShuffleNetV2Settings(), 1000, 2_278_604),
    ],
)
def test_networks_have_the_published_number_of_parameters(
    model: ModelSettings, num_classes: int, published: int
) -> None:
    assert cost_of(model, num_classes=num_classes).num_parameters == published


def test_only_the_stem_divides_resnet18_from_its_published_form() -> None:
    # torchvision's metadata of the weights ResNet18_Weights.IMAGENET1K_V1, with a 7x7 stem
    published = 11_689_512

    ours = cost_of(ResNet18Settings(), num_classes=1000).num_parameters

    assert published - ours == 64 * 3 * (7 * 7 - 3 * 3)


@pytest.mark.parametrize(
    ("model", "num_statistics"),
    [
        # one running mean and one running variance per channel of every normalisation
        (ResNet18Settings(norm="batch"), 2 * (5 * 64 + 5 * 128 + 5 * 256 + 5 * 512)),
        (Vgg16Settings(norm="batch"), 2 * (2 * 64 + 2 * 128 + 3 * 256 + 6 * 512)),
    ],
)
def test_batch_norm_adds_its_running_statistics_to_the_vector_and_the_payload(
    model: ModelSettings, num_statistics: int
) -> None:
    slots = layout(build(model))
    cost = cost_of(model)

    statistics = [slot for slot in slots if not slot.is_trained]
    assert sum(math.prod(slot.shape) for slot in statistics) == num_statistics
    assert {slot.name.rsplit(".", 1)[-1] for slot in statistics} == {"running_mean", "running_var"}
    assert slots[-1].stop == cost.num_parameters + num_statistics
    assert cost.payload_byte == 4 * slots[-1].stop


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_is_all_in_its_vector(kind: type[ResNet18Settings]) -> None:
    module = build(kind(norm="batch"), (1, 32, 32))

    assert all(value.is_floating_point() for value in module.state_dict().values())
    assert layout(module)[-1].stop == sum(value.numel() for value in module.state_dict().values())


# --- cost ---------------------------------------------------------------------------------------


def test_resnet18_spends_the_flop_of_its_convolutions() -> None:
    conv1 = 32 * 32 * 64 * 27
    stage1 = 4 * 32 * 32 * 64 * (64 * 9)
    later = 16 * 16 * 128 * (64 * 9) + 3 * 16 * 16 * 128 * (128 * 9) + 16 * 16 * 128 * 64
    total = conv1 + stage1 + 3 * later  # every later stage has twice the channels, half the side

    assert cost_of(ResNet18Settings()).forward_flop == {"conv": 2 * total, "gemm": 2 * 512 * 10}


def test_a_narrow_resnet18_spends_the_square_of_its_width_behind_the_stem() -> None:
    stem = 2 * 32 * 32 * 64 * 27
    whole = cost_of(ResNet18Settings()).forward_flop

    narrow = cost_of(ResNet18Settings(width=16)).forward_flop

    # both channels of a convolution are a quarter; those of the image are not
    assert narrow["conv"] == (whole["conv"] - stem) / 16 + stem / 4
    assert narrow["gemm"] == 2 * 128 * 10


def test_vgg16_spends_the_flop_of_its_convolutions() -> None:
    widths = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    sides = [32] * 2 + [16] * 2 + [8] * 3 + [4] * 3 + [2] * 3
    total = sum(
        side * side * width * before * 9
        for side, before, width in zip(sides, widths[:-1], widths[1:], strict=True)
    )

    assert cost_of(Vgg16Settings()).forward_flop == {"conv": 2 * total, "gemm": 2 * 512 * 10}


def test_shufflenet_tells_its_depthwise_convolutions_from_the_rest() -> None:
    dense, depthwise = 32 * 32 * 24 * 27, 0
    before, side = 24, 32
    for width, num_units in ((116, 4), (232, 8), (464, 4)):
        half, small = width // 2, side // 2
        # the first unit: left branch, then right branch, whose first layer sees the large image
        depthwise += small**2 * before * 9 + small**2 * half * 9
        dense += small**2 * before * half + side**2 * before * half + small**2 * half * half
        depthwise += (num_units - 1) * small**2 * half * 9
        dense += (num_units - 1) * 2 * small**2 * half * half
        before, side = width, small
    dense += side**2 * 464 * 1024

    assert cost_of(ShuffleNetV2Settings()).forward_flop == {
        "conv": 2 * dense,
        "depthwise": 2 * depthwise,
        "gemm": 2 * 1024 * 10,
    }


@pytest.mark.parametrize(
    ("model", "published_gmac"),
    [
        # da2so/DA2Lite@55685a7, model_zoo/README.md, to two digits
        (ResNet18Settings(), 0.56),
        (Vgg16Settings(), 0.31),
    ],
)
def test_networks_cost_the_published_multiply_adds(
    model: ModelSettings, published_gmac: float
) -> None:
    flop = sum(cost_of(model).forward_flop.values())

    assert abs(flop / 2e9 - published_gmac) <= 0.005


def test_behind_its_stem_shufflenet_costs_what_is_published_for_224_pixels() -> None:
    # Ma et al. 2018, table 8: 146 M multiply-adds; torchvision's meta["_ops"]: 0.145 G. There a
    # stem of stride 2 and a maximum bring 224 pixels to 56 before the first stage.
    here = sum(cost_of(ShuffleNetV2Settings(), (3, 56, 56), 1000).forward_flop.values()) / 2
    stem_here, stem_there = 56 * 56 * 24 * 27, 112 * 112 * 24 * 27

    assert abs((here - stem_here + stem_there) / 1e9 - 0.145) <= 0.0005


@pytest.mark.parametrize("kind", KINDS)
def test_how_layers_are_normalised_costs_no_flop_and_no_parameter(
    kind: type[ResNet18Settings],
) -> None:
    group, batch = cost_of(kind(norm="group")), cost_of(kind(norm="batch"))

    assert group.forward_flop == batch.forward_flop
    assert group.num_parameters == batch.num_parameters


# --- structure ----------------------------------------------------------------------------------


def test_a_residual_block_without_a_body_is_the_relu_of_its_input() -> None:
    blocks = [m for m in build(ResNet18Settings()).modules() if isinstance(m, Residual)]
    maps = noise(2, 64, 8, 8)
    with torch.no_grad():
        for block in blocks[:2]:
            block.body.norm2.weight.zero_()  # type: ignore[union-attr, operator]
        out = blocks[1](blocks[0](maps))

    assert len(blocks) == 8
    torch.testing.assert_close(out, maps.relu())


def test_the_last_three_stages_of_resnet18_halve_the_image_and_double_the_channels() -> None:
    maps = noise(1, *CIFAR)
    shapes = []
    for name, layer in build(ResNet18Settings()).named_children():
        maps = layer(maps)
        if name.startswith("stage"):
            shapes.append(tuple(maps.shape[1:]))

    assert shapes == [(64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]


def test_channels_interleave_as_a_shuffle_of_two_groups() -> None:
    left, right = noise(2, 3, 4, 4), noise(2, 3, 4, 4, address=1)
    shuffled = nn.ChannelShuffle(2)(torch.cat((left, right), dim=1))

    assert torch.equal(interleave(left, right), shuffled)


def test_a_shuffle_unit_passes_the_first_half_of_the_channels_as_it_is() -> None:
    maps = noise(2, 6, 4, 4)

    out = ShuffleUnit(nn.ReLU())(maps)

    assert torch.equal(out[:, 0::2], maps[:, :3])
    assert torch.equal(out[:, 1::2], maps[:, 3:].relu())


def test_a_down_unit_sends_all_channels_through_both_branches() -> None:
    maps = noise(2, 6, 4, 4)

    out = ShuffleDownUnit(nn.AvgPool2d(2), nn.MaxPool2d(2))(maps)

    assert torch.equal(out[:, 0::2], nn.AvgPool2d(2)(maps))
    assert torch.equal(out[:, 1::2], nn.MaxPool2d(2)(maps))


def test_shufflenet_has_stages_of_four_eight_and_four_units() -> None:
    module = build(ShuffleNetV2Settings())
    units = {
        name: [type(unit).__name__ for unit in stage]
        for name, stage in module.named_children()
        if isinstance(stage, nn.Sequential)
    }

    assert units == {
        "stage2": ["ShuffleDownUnit"] + ["ShuffleUnit"] * 3,
        "stage3": ["ShuffleDownUnit"] + ["ShuffleUnit"] * 7,
        "stage4": ["ShuffleDownUnit"] + ["ShuffleUnit"] * 3,
    }


# --- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_networks_train_on_single_samples_from_their_smallest_image(
    kind: type[ResNet18Settings],
) -> None:
    side = kind.min_side
    assert side is not None
    module = build(kind(norm="batch"), (1, side, side + 3), num_classes=7)

    logits = module(noise(1, 1, side, side + 3))

    assert logits.shape == (1, 7)
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize(
    ("model", "shape", "fitting"),
    [
        (
            Vgg16Settings(),
            (1, 28, 28),
            "logistic, svm, 2nn, fedgra-cnn, gpfl-cnn, lenet5, resnet18, shufflenet-v2",
        ),
        (ResNet18Settings(), (1, 8, 8), "logistic, svm, 2nn, fedgra-cnn"),
        (ShuffleNetV2Settings(), (60,), "logistic, svm, 2nn"),
    ],
)
def test_images_too_small_are_refused_with_the_networks_that_fit(
    model: ModelSettings, shape: tuple[int, ...], fitting: str
) -> None:
    side = model.min_side

    with pytest.raises(ScenarioError) as caught:
        build(model, shape)

    assert f"task.model.kind: {model.kind} needs images" in str(caught.value)
    assert f"at least {side}x{side} pixels" in str(caught.value)
    assert str(caught.value).endswith(f"what fits: {fitting}")


@pytest.mark.parametrize("kind", KINDS)
def test_on_64_pixels_and_200_classes_convolutions_cost_four_times_as_much(
    kind: type[ResNet18Settings],
) -> None:
    small, large = cost_of(kind()), cost_of(kind(), (3, 64, 64), 200)
    width = next(
        layer.in_features for layer in build(kind()).modules() if isinstance(layer, nn.Linear)
    )

    for of_layers in ("conv", "depthwise"):
        assert large.forward_flop.get(of_layers, 0) == 4 * small.forward_flop.get(of_layers, 0)
    assert large.num_parameters - small.num_parameters == 190 * (width + 1)
    logits = build(kind(norm="batch"), (3, 64, 64), 200)(noise(2, 3, 64, 64))
    assert logits.shape == (2, 200)
    assert torch.isfinite(logits).all()


# --- normalisation ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_setting_chooses_the_normalisation_of_every_layer(kind: type[ResNet18Settings]) -> None:
    with torch.device("meta"):
        group, batch = (
            [
                layer
                for layer in kind(norm=norm).build(SampleForm(CIFAR, 10)).modules()
                if isinstance(layer, nn.GroupNorm | nn.BatchNorm2d)
            ]
            for norm in ("group", "batch")
        )

    assert {type(layer) for layer in batch} == {nn.BatchNorm2d}
    assert {layer.num_groups for layer in group} == {2}
    assert [g.num_channels for g in group] == [b.num_features for b in batch]


@pytest.mark.parametrize("kind", [ResNet18Settings, ShuffleNetV2Settings])
def test_with_group_norm_a_sample_does_not_see_the_others_in_its_batch(
    kind: type[ResNet18Settings],
) -> None:
    images = noise(3, *SMALL)
    module = build(kind(norm="group"), SMALL)

    torch.testing.assert_close(module(images)[:1], module(images[:1]), rtol=1e-4, atol=1e-5)


def test_with_batch_norm_it_does_and_only_in_training() -> None:
    images = noise(3, *SMALL)
    module = build(ShuffleNetV2Settings(norm="batch"), SMALL)

    assert not torch.allclose(module(images)[:1], module(images[:1]), rtol=1e-2)
    module.eval()
    torch.testing.assert_close(module(images)[:1], module(images[:1]), rtol=1e-4, atol=1e-5)


def trained(vector: Parameters, model: ModelSettings, address: int) -> Parameters:
    settings = LocalSettings(epochs=1, batch_size=4, optimizer=SgdSettings(learning_rate=0.01))
    inputs, labels = noise(5, *SMALL, address=address), torch.arange(5)
    module = build(model, SMALL)
    stream = rng.stream(2, "order", address)
    result = local_sgd.train(
        module, vector, inputs, labels, settings, local_sgd.Passes(epochs=1, stream=stream)
    )
    assert result.vector is not None
    return result.vector


def statistics(model: ModelSettings) -> BoolArray:
    """Return the mask of running statistics in the flat vector."""
    slots = layout(build(model, SMALL))
    return np.repeat([not s.is_trained for s in slots], [s.stop - s.start for s in slots])


def test_a_client_moves_the_running_statistics_by_those_of_its_own_batches() -> None:
    images = noise(4, *SMALL)
    module = build(ShuffleNetV2Settings(norm="batch"), SMALL)
    module(images)
    with torch.no_grad():
        first = module.conv1(images)  # type: ignore[operator]

    # torch's default momentum of .1; the variance kept is the unbiased one
    values = first.transpose(0, 1).flatten(1)
    torch.testing.assert_close(module.norm1.running_mean, 0.1 * values.mean(1))  # type: ignore[union-attr]
    torch.testing.assert_close(module.norm1.running_var, 0.9 + 0.1 * values.var(1))  # type: ignore[union-attr]


@pytest.mark.slow
def test_running_statistics_come_back_with_the_model_and_depend_on_nothing_else() -> None:
    model = ShuffleNetV2Settings(norm="batch")
    start = flatten(build(model, SMALL))

    once, again = trained(start, model, 0), trained(start, model, 0)

    assert once.tobytes() == again.tobytes()
    assert not np.array_equal(once[statistics(model)], start[statistics(model)])


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", [ResNet18Settings(norm="batch"), ShuffleNetV2Settings()])
def test_a_small_step_down_the_gradient_lowers_the_loss_by_its_square(model: ModelSettings) -> None:
    inputs, labels = noise(4, *SMALL).double(), torch.arange(4)
    module = build(model, SMALL, num_classes=4).double()
    weights = list(module.parameters())
    before = cross_entropy(module(inputs), labels)
    gradients = torch.autograd.grad(before, weights)
    square = sum(float(gradient.square().sum()) for gradient in gradients)
    step = 1e-6 / square

    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.sub_(gradient, alpha=step)
        after = cross_entropy(module(inputs), labels)

    assert float(before.detach() - after) == pytest.approx(step * square, rel=0.05)
