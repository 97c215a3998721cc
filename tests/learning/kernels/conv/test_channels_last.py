from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import JobResult, Parameters
from fleetsim.learning.kernels.conv import channels_last
from fleetsim.learning.kernels.conv.channels_last import form_of
from fleetsim.learning.kernels.conv.im2col import ColumnConv2d
from fleetsim.learning.kernels.conv.pooled_convolution import PooledConv2d
from fleetsim.learning.kernels.conv.winograd import WinogradConv2d
from fleetsim.learning.kernels.cpu import gemm
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.settings import LocalSettings, SgdSettings
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    FedGraCnnSettings,
    GpflCnnSettings,
    LeNet5Settings,
    ModelSettings,
    ResNet18Settings,
    ShuffleNetV2Settings,
    Vgg16Settings,
)

torch.set_num_threads(1)  # small operations wait for a second thread longer than they take

Array = NDArray[Any]
Shape = tuple[int, int, int]

NUM_CLASSES = 4
MODELS: dict[str, tuple[ModelSettings, Shape, int]] = {
    "fedgra-cnn": (FedGraCnnSettings(), (1, 10, 8), 3),
    "gpfl-cnn": (GpflCnnSettings(), (3, 18, 20), 3),
    "lenet5": (LeNet5Settings(), (3, 12, 14), 3),
    "resnet18, group": (ResNet18Settings(norm="group"), (3, 16, 16), 3),
    "resnet18, batch": (ResNet18Settings(norm="batch"), (3, 9, 9), 8),
    "vgg16": (Vgg16Settings(), (3, 32, 32), 2),
    "shufflenet-v2, group": (ShuffleNetV2Settings(norm="group"), (3, 9, 9), 3),
    "shufflenet-v2, batch": (ShuffleNetV2Settings(norm="batch"), (3, 16, 16), 16),
}
"""Image shape and batch size. BatchNorm in the many layers of ShuffleNet makes more of the last bit
the fewer pixels a batch has: with 3 images of 9x9 pixels one unit in the last place of the images
is 3e-11 of the update, in the reference itself; with 16 of 16x16, 6e-14."""

everywhere = pytest.mark.parametrize("name", MODELS)


class ChannelsLast:
    """The functions of `local_sgd` on the fast form of a network."""

    def __init__(
        self, module: nn.Module, input_shape: tuple[int, ...], settings: LocalSettings
    ) -> None:
        self.form = form_of(module, input_shape, settings.batch_size)
        self.settings = settings

    def train(
        self,
        base: Parameters,
        images: Tensor,
        labels: Tensor,
        *,
        epochs: int,
        stream: np.random.Generator,
        most_steps: int | None = None,
        tells_epoch_losses: bool = False,
    ) -> JobResult:
        with gemm.onednn(is_allowed=self.form.uses_onednn):
            return local_sgd.train(
                self.form.module,
                base,
                images,
                labels,
                self.settings,
                epochs=epochs,
                stream=stream,
                most_steps=most_steps,
                tells_epoch_losses=tells_epoch_losses,
            )

    def gradient(self, base: Parameters, *samples: Tensor) -> JobResult:
        with gemm.onednn(is_allowed=self.form.uses_onednn):
            return local_sgd.gradient(self.form.module, base, *samples)

    def evaluate(self, base: Parameters, *samples: Tensor) -> JobResult:
        with gemm.onednn(is_allowed=self.form.uses_onednn):
            return local_sgd.evaluate(self.form.module, base, *samples)


def network(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Shape]:
    chosen, shape, _ = MODELS[name]
    module = build_model(chosen, input_shape=shape, num_classes=NUM_CLASSES, seed=1)
    return module.to(dtype), shape


def samples(shape: Shape, num: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    draw = rng.stream(2, "test/images", num)
    images = torch.from_numpy(draw.normal(size=(num, *shape))).to(dtype)
    return images, torch.from_numpy(draw.integers(NUM_CLASSES, size=num))


def local_settings(
    batch_size: int = 3,
    learning_rate: float = 0.05,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    mu: float = 0.0,
) -> LocalSettings:
    sgd = SgdSettings(learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)
    return LocalSettings(epochs=1, batch_size=batch_size, optimizer=sgd, proximal_mu=mu)


def stream() -> np.random.Generator:
    return rng.stream(3, "test/channels_last")


def vector_of(result: JobResult) -> Array:
    assert result.vector is not None
    return result.vector


def distance(found: JobResult, expected: JobResult, base: Array) -> float:
    """Relative to the update."""
    difference = np.linalg.norm(vector_of(found) - vector_of(expected))
    return float(difference / np.linalg.norm(vector_of(expected) - base))


@everywhere
def test_training_equals_the_plain_reference_in_float64(name: str) -> None:
    """Two steps, the second of a smaller batch, with all that an update may contain."""
    module, shape = network(name)
    base = flatten(module)
    batch_size = MODELS[name][2]
    images, labels = samples(shape, batch_size * 3 // 2)
    chosen = local_settings(batch_size, momentum=0.7, weight_decay=0.01, mu=0.2)
    fast = ChannelsLast(module, shape, chosen)
    expected = local_sgd.train(module, base, images, labels, chosen, epochs=1, stream=stream())

    found = fast.train(base, images, labels, epochs=1, stream=stream())

    assert distance(found, expected, base) <= 1e-12
    assert vector_of(found).dtype == np.float64
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    assert found.loss_rms == pytest.approx(expected.loss_rms, rel=1e-12)


@settings(max_examples=15)
@given(
    name=st.sampled_from(["fedgra-cnn", "lenet5"]),
    num_samples=st.integers(1, 9),
    batch_size=st.integers(1, 5),
    epochs=st.integers(1, 2),
    momentum=st.sampled_from([0.0, 0.9]),
    weight_decay=st.sampled_from([0.0, 0.01]),
    mu=st.sampled_from([0.0, 0.5]),
    most_steps=st.none() | st.integers(1, 6),
)
def test_training_equals_the_reference_for_all_sizes_and_optimizers(
    name: str,
    num_samples: int,
    batch_size: int,
    epochs: int,
    momentum: float,
    weight_decay: float,
    mu: float,
    most_steps: int | None,
) -> None:
    module, shape = network(name)
    base = flatten(module)
    images, labels = samples(shape, num_samples)
    chosen = local_settings(batch_size, 0.05, momentum, weight_decay, mu)
    fast = ChannelsLast(module, shape, chosen)
    how: dict[str, Any] = {
        "epochs": epochs,
        "most_steps": most_steps,
        "tells_epoch_losses": True,
    }
    expected = local_sgd.train(module, base, images, labels, chosen, stream=stream(), **how)

    found = fast.train(base, images, labels, stream=stream(), **how)

    assert distance(found, expected, base) <= 1e-12
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    assert found.epoch_losses == pytest.approx(expected.epoch_losses, rel=1e-12)
    assert found.num_samples == num_samples


@everywhere
def test_one_step_in_float32_equals_the_reference_but_for_rounding(name: str) -> None:
    module, shape = network(name, torch.float32)
    base = flatten(module)
    batch_size = MODELS[name][2]
    images, labels = samples(shape, batch_size, torch.float32)
    chosen = local_settings(batch_size)
    fast = ChannelsLast(module, shape, chosen)
    expected = local_sgd.train(module, base, images, labels, chosen, epochs=1, stream=stream())

    found = fast.train(base, images, labels, epochs=1, stream=stream())

    assert distance(found, expected, base) < 1e-3
    assert vector_of(found).dtype == np.float32


@pytest.mark.parametrize("name", ["fedgra-cnn", "resnet18, batch"])
def test_gradients_and_evaluations_are_those_of_the_reference(name: str) -> None:
    module, shape = network(name)
    base = flatten(module)
    images, labels = samples(shape, 5)
    fast = ChannelsLast(module, shape, local_settings())

    found, expected = (
        fast.gradient(base, images, labels),
        local_sgd.gradient(module, base, images, labels),
    )
    assert distance(found, expected, np.zeros_like(base)) <= 1e-12
    evaluated, plain = (
        fast.evaluate(base, images, labels),
        local_sgd.evaluate(module, base, images, labels),
    )
    assert (evaluated.accuracy, evaluated.num_samples) == (plain.accuracy, plain.num_samples)
    assert evaluated.loss == pytest.approx(plain.loss, rel=1e-12)
    assert evaluated.loss_rms == pytest.approx(plain.loss_rms, rel=1e-12)


def test_evaluation_in_parts_is_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    module, shape = network("lenet5")
    images, labels = samples(shape, 7)
    fast = ChannelsLast(module, shape, local_settings())
    whole = fast.evaluate(flatten(module), images, labels)
    monkeypatch.setattr(channels_last, "EVALUATED_IMAGES", 3)

    in_parts = fast.evaluate(flatten(module), images, labels)

    assert in_parts.accuracy == whole.accuracy
    assert in_parts.loss == pytest.approx(whole.loss, rel=1e-12)


def test_batches_are_never_parted_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or BatchNorm would see other statistics."""
    module, shape = network("resnet18, batch")
    base = flatten(module)
    images, labels = samples(shape, 4)
    fast = ChannelsLast(module, shape, local_settings(batch_size=4))
    whole = fast.train(base, images, labels, epochs=1, stream=stream())
    monkeypatch.setattr(channels_last, "EVALUATED_IMAGES", 2)

    again = fast.train(base, images, labels, epochs=1, stream=stream())

    assert vector_of(again).tobytes() == vector_of(whole).tobytes()


def test_equal_jobs_give_equal_bytes_whatever_came_before() -> None:
    module, shape = network("resnet18, batch", torch.float32)
    base = flatten(module)
    images, labels = samples(shape, 5, torch.float32)
    chosen = local_settings(momentum=0.9)
    fresh = ChannelsLast(module, shape, chosen)
    expected = fresh.train(base, images, labels, epochs=1, stream=stream())
    used = ChannelsLast(module, shape, chosen)
    used.train(base + np.float32(0.1), images[:2], labels[:2], epochs=2, stream=stream())
    used.gradient(base, images, labels)
    used.evaluate(vector_of(expected), images, labels)

    found = used.train(base, images, labels, epochs=1, stream=stream())

    assert vector_of(found).tobytes() == vector_of(expected).tobytes()
    assert (found.loss, found.loss_rms) == (expected.loss, expected.loss_rms)


def test_neither_the_network_nor_the_base_is_changed() -> None:
    module, shape = network("lenet5")
    images, labels = samples(shape, 4)
    base, slots, layers = flatten(module), layout(module), list(module.children())
    before = base.copy()

    fast = ChannelsLast(module, shape, local_settings())
    fast.train(base, images, labels, epochs=1, stream=stream())

    assert (layout(module), list(module.children())) == (slots, layers)
    np.testing.assert_array_equal(base, before)
    np.testing.assert_array_equal(flatten(module), before)


class Spy(nn.Module):
    """Passes maps on and tells of them."""

    def __init__(self, note: Callable[[Tensor], None]) -> None:
        super().__init__()
        self._note = note

    def forward(self, maps: Tensor) -> Tensor:
        self._note(maps)
        return maps


def spied(note: Callable[[Tensor], None]) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), Spy(note), nn.MaxPool2d(2), Spy(note), nn.Flatten(), nn.Linear(72, 2)
    )


def test_maps_of_one_channel_images_are_channels_last_from_the_first_layer_on() -> None:
    seen: list[Tensor] = []
    module = spied(seen.append)
    images, labels = torch.ones(3, 1, 8, 8), torch.zeros(3, dtype=torch.int64)
    fast = ChannelsLast(module, (1, 8, 8), local_settings())
    seen.clear()

    fast.train(flatten(module), images, labels, epochs=1, stream=stream())
    fast.evaluate(flatten(module), images, labels)

    assert [maps.stride(1) for maps in seen] == [1, 1, 1, 1]


@pytest.mark.parametrize("is_exact", [True, False])
def test_onednn_multiplies_in_a_job_only_and_only_where_it_is_exact(
    monkeypatch: pytest.MonkeyPatch, is_exact: bool
) -> None:
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("torch has no such switch before 2.9")
    switch: Any = torch.backends.mkldnn
    before = switch.matmul.fp32_precision
    seen: list[str] = []
    module = spied(lambda _maps: seen.append(switch.matmul.fp32_precision))
    monkeypatch.setattr(gemm, "onednn_is_exact", lambda _shapes: is_exact)
    fast = ChannelsLast(module, (1, 8, 8), local_settings())
    seen.clear()

    base, images, labels = flatten(module), torch.ones(3, 1, 8, 8), torch.tensor([0, 1, 1])
    fast.train(base, images, labels, epochs=1, stream=stream())
    fast.gradient(base, images, labels)
    fast.evaluate(base, images, labels)

    assert seen == ["bf16" if is_exact else before] * 6
    assert switch.matmul.fp32_precision == before


def names(module: nn.Module) -> list[str]:
    return [name for name, _ in module.named_children()]


def test_rising_activations_and_poolings_behind_them_change_places() -> None:
    module = build_model(FedGraCnnSettings(), input_shape=(1, 8, 8), num_classes=2, seed=1)
    channels_last._pool_first(module)

    assert " ".join(names(module)) == (
        "conv1 pool1 sigmoid1 conv2 pool2 relu2 flatten fc1 relu3 fc2"
    )


def test_all_other_layers_stay_where_they_are() -> None:
    class Own(nn.Sequential):
        pass

    shared = nn.ReLU()
    module = nn.Sequential(
        nn.Sequential(nn.GELU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.ReLU(), nn.AvgPool2d(2)),
        nn.Sequential(shared, nn.MaxPool2d(2), shared),
        Own(nn.ReLU(), nn.MaxPool2d(2)),
    )
    before = str(module)
    channels_last._pool_first(module)

    assert str(module) == before


@pytest.mark.parametrize(
    ("chosen", "shape", "num_columns"),
    [
        (FedGraCnnSettings(), (1, 28, 28), 0),
        (LeNet5Settings(), (3, 32, 32), 0),
        (ResNet18Settings(), (3, 32, 32), 4),
        (ResNet18Settings(), (3, 64, 64), 0),
        (Vgg16Settings(), (3, 32, 32), 6),
        (ShuffleNetV2Settings(), (3, 32, 32), 0),
    ],
    ids=str,
)
def test_convolutions_of_a_million_weights_on_maps_of_16_pixels_become_columns(
    chosen: ModelSettings, shape: Shape, num_columns: int
) -> None:
    """ResNet-18: 256 to 512 and 512 to 512 (3 times), 3x3; VGG-16: 256 to 512 and five times 512.

    VGG-16's last six see 4x4 (from 256 to 512 on) and 2x2 pixels of an image of 32x32.
    """
    module = build_model(chosen, input_shape=shape, num_classes=2, seed=1)
    fast = ChannelsLast(module, shape, local_settings())

    found = [layer for layer in fast.form.module.modules() if isinstance(layer, ColumnConv2d)]
    assert len(found) == num_columns


@pytest.mark.parametrize(
    ("chosen", "shape", "pooled"),
    [
        (FedGraCnnSettings(), (1, 28, 28), ["conv2"]),
        (GpflCnnSettings(), (1, 28, 28), ["conv2"]),
        (LeNet5Settings(), (1, 28, 28), ["conv2"]),
        (ResNet18Settings(), (3, 32, 32), []),
        (Vgg16Settings(), (3, 32, 32), []),
        (ShuffleNetV2Settings(), (3, 32, 32), []),
    ],
    ids=str,
)
def test_convolutions_that_are_pooled_are_one_layer_with_the_pooling(
    chosen: ModelSettings, shape: Shape, pooled: list[str]
) -> None:
    """Those behind the first: 32, 32 and 6 channels in, kernels 5, 3 and 5 wide.

    The large networks normalise between convolution and pooling.
    """
    module = build_model(chosen, input_shape=shape, num_classes=2, seed=1)
    fast = ChannelsLast(module, shape, local_settings())

    layers = fast.form.module.named_modules()
    assert [name[5:] for name, layer in layers if isinstance(layer, PooledConv2d)] == pooled


@pytest.mark.parametrize(
    ("conv", "pool"),
    [
        (nn.Conv2d(7, 2, 3), nn.MaxPool2d(2)),
        (nn.Conv2d(8, 2, 3), nn.MaxPool2d(2, stride=1)),
        (nn.Conv2d(8, 2, 3), nn.MaxPool2d((3, 1))),
        (nn.Conv2d(8, 2, 3), nn.AvgPool2d(2)),
        (nn.Conv2d(8, 2, 3, groups=2), nn.MaxPool2d(2)),
        (nn.Conv2d(8, 2, 3, dilation=2), nn.MaxPool2d(2)),
        (nn.Conv2d(8, 2, 3, padding="same"), nn.MaxPool2d(2)),
        (nn.Conv2d(8, 2, 3, padding=1, padding_mode="reflect"), nn.MaxPool2d(2)),
    ],
    ids=str,
)
def test_others_stay_two_layers(conv: nn.Module, pool: nn.Module) -> None:
    """Runs of 21 numbers, windows of one and three positions, and what the loops do not know."""
    module = nn.Sequential(conv, pool)
    before = str(module)
    channels_last._take_pooled(module)
    assert str(module) == before

    module = nn.Sequential(nn.Conv2d(8, 2, 3), nn.MaxPool2d(2))
    channels_last._take_pooled(module)
    assert [type(layer) for layer in module] == [PooledConv2d]


@pytest.mark.parametrize(
    ("chosen", "shape", "num_tiled"),
    [
        (FedGraCnnSettings(), (1, 28, 28), 0),
        (LeNet5Settings(), (3, 32, 32), 0),
        (ResNet18Settings(), (3, 32, 32), 10),
        (ResNet18Settings(), (3, 9, 9), 0),
        (Vgg16Settings(), (3, 32, 32), 6),
        (ShuffleNetV2Settings(), (3, 32, 32), 0),
    ],
    ids=str,
)
def test_convolutions_of_many_channels_take_winograds_algorithm(
    chosen: ModelSettings, shape: Shape, num_tiled: int
) -> None:
    """ResNet-18: four of 64 channels on 32x32 pixels, three of 128 and of 256; maps of 9x9 take
    144 pixels in tiles. VGG-16: all from 64 to 64 up to 256 to 256. ShuffleNet's 3x3 have groups.
    """
    module = build_model(chosen, input_shape=shape, num_classes=2, seed=1)
    fast = ChannelsLast(module, shape, local_settings())

    found = [layer for layer in fast.form.module.modules() if isinstance(layer, WinogradConv2d)]
    assert len(found) == num_tiled


@pytest.mark.parametrize(
    ("conv", "size", "suits"),
    [
        (nn.Conv2d(64, 64, 3), (4, 4), True),
        (nn.Conv2d(63, 64, 3), (4, 4), False),
        (nn.Conv2d(64, 63, 3), (4, 4), False),
        (nn.Conv2d(64, 64, 5), (4, 4), False),
        (nn.Conv2d(64, 64, 3, stride=2), (4, 4), False),
        (nn.Conv2d(64, 64, 3, groups=2), (4, 4), False),
        (nn.Conv2d(64, 64, 3, padding_mode="reflect", padding=1), (4, 4), False),
        # 9 * 2^17 are more than 2^20 weights, 9 * 2^16 are fewer.
        (nn.Conv2d(256, 512, 3), (8, 8), False),
        (nn.Conv2d(256, 256, 3), (8, 8), True),
        # 16 * 16 of 14 * 14 is 1.31, of 14 * 13 1.41.
        (nn.Conv2d(64, 64, 3), (14, 14), True),
        (nn.Conv2d(64, 64, 3), (14, 13), False),
    ],
    ids=str,
)
def test_when_winograds_algorithm_is_taken(
    conv: nn.Conv2d, size: tuple[int, int], suits: bool
) -> None:
    assert channels_last._suits_winograd(conv, size) is suits


def test_numba_is_imported_for_networks_that_have_such_layers_alone() -> None:
    """It takes as much memory as a small model's whole process has to spare."""
    program = (
        "import sys, fleetsim.simulate\n"
        "from fleetsim.learning.kernels.conv.channels_last import form_of\n"
        "from torch import nn\n"
        "form_of(nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2)), (3, 8, 8), 1)\n"
        "before = 'numba' in sys.modules\n"
        "form_of(nn.Sequential(nn.Conv2d(8, 8, 3), nn.MaxPool2d(2)), (8, 8, 8), 1)\n"
        "print(before, 'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def test_samples_that_are_no_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(60,\) is no image"):
        ChannelsLast(nn.Linear(60, 2), (60,), local_settings())
