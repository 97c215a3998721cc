from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import SampleForm, Work, WorkKind
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.conv import channels_last
from fleetsim.kernels.conv.channels_last import ChannelsLastKernel, form_of
from fleetsim.kernels.cpu import gemm
from fleetsim.learning.local.optimizers import Descent
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.vision import MakeNorm, Residual, group_norm
from fleetsim.training.worker_pool import Pool
from tests.learning.side_by_side import (
    NUM_CLASSES,
    Client,
    Fleet,
    assert_equal,
    built,
    distance,
    drawn,
    local,
    same,
    vector_of,
)

Shape = tuple[int, int, int]


def residual(channels: int, norm: MakeNorm) -> nn.Module:
    convs = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
    body = nn.Sequential(next(convs), norm(channels), nn.ReLU(), next(convs), norm(channels))
    return Residual(body, nn.Identity())


def batch_norm(channels: int) -> nn.Module:
    norm = nn.BatchNorm2d(channels)
    norm.num_batches_tracked = None
    return norm


def two_blocks(norm: MakeNorm) -> nn.Module:
    """A network with convolutions of every form, for images of 8 x 8 pixels (see `small_forms`)."""
    blocks = nn.Conv2d(3, 4, 3, padding=1), residual(4, norm)
    strided = nn.Conv2d(4, 8, 3, stride=2, padding=1), residual(8, norm)
    end = nn.Conv2d(8, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return drawn(nn.Sequential(*blocks, *strided, *end, nn.Linear(24, NUM_CLASSES)))


@pytest.fixture
def small_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits by which the 576 weights and 16 positions of the second block are many and few."""
    monkeypatch.setattr(channels_last, "MIN_WEIGHTS", 576)
    monkeypatch.setattr(channels_last, "MIN_CHANNELS", 4)


NETWORKS: dict[str, tuple[Callable[[], nn.Module] | models.ModelSettings, Shape, int]] = {
    "fedgra-cnn": (models.FedGraCnnSettings(), (1, 10, 8), 3),
    "gpfl-cnn": (models.GpflCnnSettings(), (3, 18, 20), 3),
    "lenet5": (models.LeNet5Settings(), (3, 12, 14), 3),
    "two blocks, group": (lambda: two_blocks(group_norm), (3, 8, 8), 3),
    "two blocks, batch": (lambda: two_blocks(batch_norm), (3, 8, 8), 8),
    "resnet18, group": (models.ResNet18Settings(), (3, 16, 16), 3),
    "resnet18, batch": (models.ResNet18Settings(norm="batch"), (3, 9, 9), 8),
    "vgg16": (models.Vgg16Settings(), (3, 32, 32), 2),
    "shufflenet-v2, group": (models.ShuffleNetV2Settings(), (3, 9, 9), 3),
    "shufflenet-v2, batch": (models.ShuffleNetV2Settings(norm="batch"), (3, 16, 16), 16),
}
"""Network, image shape and batch size. BatchNorm in the many layers of ShuffleNet makes more of the
last bit the fewer pixels a batch has: with 3 images of 9x9 pixels one unit in the last place of the
images is 3e-11 of the update, in the reference itself; with 16 of 16x16, 6e-14."""


def fleet_of(name: str, *sizes: int, dtype: torch.dtype = torch.float64) -> Fleet:
    network, shape, _ = NETWORKS[name]
    module = network() if callable(network) else built(network, shape, 1)
    return Fleet(module, [Client(size) for size in sizes], shape=shape, dtype=dtype)


FAST = {"fedgra-cnn", "gpfl-cnn", "lenet5", "two blocks, group", "two blocks, batch"}
everywhere = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in NETWORKS],
)


@pytest.mark.slow
@everywhere
@pytest.mark.usefixtures("small_forms")
def test_training_equals_the_plain_reference_in_float64(name: str) -> None:
    """Two steps, the second of a smaller batch, with all that an update may contain."""
    batch_size = NETWORKS[name][2]
    fleet = fleet_of(name, batch_size * 3 // 2)
    chosen = local(batch_size, 0.05, momentum=0.7, weight_decay=0.01, mu=0.2)

    assert_equal(fleet, fleet.train(ChannelsLastKernel, chosen), fleet.train(Kernel, chosen))


@everywhere
def test_one_step_in_float32_equals_the_reference_but_for_rounding(name: str) -> None:
    """For images that bring no unit so near 0 that it rounds to the other side of a ReLU."""
    _, shape, batch_size = NETWORKS[name]
    fleet = fleet_of(name, batch_size, dtype=torch.float32)
    draw = rng.stream(2, "test/images", batch_size)
    images = draw.normal(size=(batch_size, *shape)).astype(np.float32)
    labels = draw.integers(NUM_CLASSES, size=batch_size)
    fleet.data = replace(fleet.data, train_inputs=images, train_labels=labels)
    job, chosen = fleet.jobs()[0]._replace(base=fleet.first), local(batch_size, 0.05)
    results, expected = (
        fleet.kernel(kind, chosen).compute([job])[0] for kind in (ChannelsLastKernel, Kernel)
    )

    assert distance(results, expected, fleet.first) < 1e-3
    assert vector_of(results).dtype == np.float32


@pytest.mark.parametrize(
    ("user_code", "limit", "num_steps"), [(None, None, 2), ("mine", None, 0), (None, 1.0, 0)]
)
def test_it_steps_within_the_backward_pass_unless_code_of_the_users_own_could_see_it(
    monkeypatch: pytest.MonkeyPatch, user_code: str | None, limit: float | None, num_steps: int
) -> None:
    steps: list[Tensor] = []
    step = Descent.step_in_backward

    def counted(self: Descent, loss: Tensor) -> None:
        steps.append(loss)
        step(self, loss)

    monkeypatch.setattr(Descent, "step_in_backward", counted)
    chosen = local(3).model_copy(update={"max_gradient_norm": limit})
    fleet = fleet_of("lenet5", 6)
    fleet.kernel(ChannelsLastKernel, chosen, user_code=user_code).compute(fleet.jobs())

    assert len(steps) == num_steps


BLOCKS = "two blocks, batch"


@pytest.mark.parametrize("name", ["fedgra-cnn", BLOCKS])
@pytest.mark.usefixtures("small_forms")
def test_gradients_and_evaluations_are_those_of_the_reference(name: str) -> None:
    fleet = fleet_of(name, 5)
    kinds = WorkKind.GRADIENT, WorkKind.EVALUATE
    jobs = [fleet.jobs()[0]._replace(work=Work(kind)) for kind in kinds]

    results, expected = (
        Pool(fleet.kernel(kind, local()), 1).compute(jobs) for kind in (ChannelsLastKernel, Kernel)
    )
    assert distance(results[0], expected[0], np.zeros_like(fleet.first)) <= 1e-12
    for mine, theirs in zip(results, expected, strict=True):
        assert (mine.accuracy, mine.num_samples) == (theirs.accuracy, theirs.num_samples)
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-12)
        assert mine.loss_rms == pytest.approx(theirs.loss_rms, rel=1e-12)


def test_images_are_evaluated_in_parts_and_never_parted_in_training(monkeypatch):
    """Or BatchNorm would see other statistics."""
    fleet = fleet_of(BLOCKS, 4)
    kernel = fleet.kernel(ChannelsLastKernel, local(4))
    scored, (trained,) = kernel.evaluate(fleet.first, "test", 0, 4), kernel.compute(fleet.jobs())
    monkeypatch.setattr(channels_last, "EVALUATED_IMAGES", 3)

    np.testing.assert_allclose(kernel.evaluate(fleet.first, "test", 0, 4), scored, rtol=1e-12)
    assert same(kernel.compute(fleet.jobs())[0], trained)


class Spy(nn.Module):
    """Passes maps on and tells of them."""

    def __init__(self, note: Callable[[Tensor], None]) -> None:
        super().__init__()
        self._note = note

    def forward(self, maps: Tensor) -> Tensor:
        self._note(maps)
        return maps


def spied(note: Callable[[Tensor], None]) -> tuple[Fleet, Pool]:
    """A network that tells of its maps, in its fast form, with one client of 3 images."""
    layers = nn.Conv2d(1, 8, 3), Spy(note), nn.MaxPool2d(2), Spy(note), nn.Flatten()
    module = nn.Sequential(*layers, nn.Linear(72, NUM_CLASSES))
    fleet = Fleet(module, [Client(3)], shape=(1, 8, 8), dtype=torch.float32)
    return fleet, Pool(fleet.kernel(ChannelsLastKernel, local()), 1)


KINDS = [Work(WorkKind.TRAIN, epochs=1), Work(WorkKind.GRADIENT), Work(WorkKind.EVALUATE)]


@pytest.mark.parametrize("is_exact", [True, False])
def test_onednn_multiplies_in_a_job_only_and_only_where_it_is_exact(monkeypatch, is_exact):
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("torch has no such switch before 2.9")
    switch: Any = torch.backends.mkldnn
    before = switch.matmul.fp32_precision
    seen: list[str] = []
    monkeypatch.setattr(gemm, "onednn_is_exact", lambda _shapes: is_exact)
    fleet, pool = spied(lambda _maps: seen.append(switch.matmul.fp32_precision))
    seen.clear()
    pool.compute([fleet.jobs()[0]._replace(work=work) for work in KINDS])
    pool.evaluate(fleet.first, "test")

    assert seen == ["bf16" if is_exact else before] * 8
    assert switch.matmul.fp32_precision == before


class Own(nn.Sequential):
    """Layers that may be used in another order."""


SHARED = nn.ReLU()


SWAPPED = [
    (nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), True),
    (nn.Sequential(nn.Sigmoid(), nn.MaxPool2d(2)), True),
    (nn.Sequential(nn.GELU(), nn.MaxPool2d(2)), False),
    (nn.Sequential(nn.ReLU(), nn.AvgPool2d(2)), False),
    (nn.Sequential(SHARED, nn.MaxPool2d(2), SHARED), False),
    (Own(nn.ReLU(), nn.MaxPool2d(2)), False),
]


@pytest.mark.parametrize(("module", "changed"), SWAPPED, ids=str)
def test_rising_activations_and_poolings_behind_them_change_places(module, changed):
    before = list(module)
    channels_last._pool_first(module)

    assert list(module) == (before[::-1] if changed else before)


FORMS = [
    (models.FedGraCnnSettings(), (1, 28, 28), {"PooledConv2d": 1}),
    (models.GpflCnnSettings(), (1, 28, 28), {"PooledConv2d": 1}),
    (models.LeNet5Settings(), (3, 32, 32), {"PooledConv2d": 1}),
    (models.ResNet18Settings(), (3, 32, 32), {"ColumnConv2d": 4, "WinogradConv2d": 10}),
    (models.ResNet18Settings(), (3, 64, 64), {"WinogradConv2d": 10}),
    (models.ResNet18Settings(), (3, 9, 9), {"ColumnConv2d": 4}),
    (models.Vgg16Settings(), (3, 32, 32), {"ColumnConv2d": 6, "WinogradConv2d": 6}),
    (models.ShuffleNetV2Settings(), (3, 32, 32), {}),
]


def test_a_relu_overwrites_what_a_normalisation_yields_in_the_copy_alone():
    given = nn.Sequential(
        nn.Conv2d(3, 4, 3), group_norm(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU()
    )
    form, _ = form_of(given, (3, 8, 8), 2)
    relus = [layer for layer in form.modules() if type(layer) is nn.ReLU]

    assert [relu.inplace for relu in relus] == [True, False]
    assert not any(layer.inplace for layer in given.modules() if type(layer) is nn.ReLU)


@pytest.mark.parametrize(("chosen", "shape", "forms"), FORMS, ids=str)
def test_forms_of_the_published_networks(chosen, shape, forms):
    """Columns, over 2^20 weights on 16 positions. ResNet-18: 256 to 512 and 512 to 512 (3 times);
    VGG-16: the last six, which see 4x4 (from 256 to 512 on) and 2x2 pixels.

    Pooled: those behind the first, 32, 32 and 6 channels in, kernels 5, 3 and 5 wide; the large
    networks normalise between convolution and pooling.

    Winograd's algorithm. ResNet-18: four of 64 channels, three of 128 and of 256; maps of 9x9 take
    144 pixels in tiles. VGG-16: from 64 to 64 up to 256 to 256. ShuffleNet's 3x3 have groups.
    """
    module = build_model(chosen, SampleForm(shape, 2), seed=1).double()
    counts = Counter(type(layer).__name__ for layer in form_of(module, shape, 3)[0].modules())

    names = ("PooledConv2d", "ColumnConv2d", "WinogradConv2d")
    assert {name: counts[name] for name in names if counts[name]} == forms
