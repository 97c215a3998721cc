import math
import re

import numpy as np
import pytest
import torch
from torch import nn

from fleetsim import rng
from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.local import local_sgd
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.dropout import Dropout, dropping_out
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import TwoNNSettings
from tests.learning.side_by_side import Array, local, vector_of

MNIST = (1, 28, 28)
DIGITS = (1, 8, 8)
CIFAR = (3, 32, 32)


@pytest.mark.parametrize(
    ("model", "input_shape", "num_classes", "published"),
    [
        (models.TwoNNSettings(), MNIST, 10, 199_210),
        (models.FedGraCnnSettings(), MNIST, 10, 1_663_370),
        (models.LeNet5Settings(), MNIST, 10, 61_706),
        (models.LogisticSettings(), MNIST, 10, 7_850),
        (models.LogisticSettings(), (60,), 10, 610),
        (models.SvmSettings(), MNIST, 10, 7_850),
        (models.TwoNNSettings(hidden=(64, 30)), MNIST, 10, 52_500),
        (models.GpflCnnSettings(), CIFAR, 10, 122_570),
        # kuangliu/pytorch-cifar@c7c3518, models/resnet.py, vgg.py and shufflenetv2.py
        (models.ResNet18Settings(), CIFAR, 10, 11_173_962),
        (models.Vgg16Settings(), CIFAR, 10, 14_728_266),
        (models.ShuffleNetV2Settings(), CIFAR, 10, 1_263_854),
        # torchvision's metadata of the weights ShuffleNet_V2_X1_0_Weights.IMAGENET1K_V1
        (models.ShuffleNetV2Settings(), CIFAR, 1000, 2_278_604),
    ],
    ids=str,
)
def test_networks_have_the_published_number_of_parameters(
    model, input_shape, num_classes, published
):
    module = build_model(model, SampleForm(input_shape, num_classes), seed=0)

    assert flatten(module).size == published


@pytest.mark.parametrize(
    ("model", "least"),
    [
        (models.LeNet5Settings(), 12),
        (models.GpflCnnSettings(), 18),
        (models.ResNet18Settings(norm="batch"), 9),
        (models.Vgg16Settings(norm="batch"), 32),
        (models.ShuffleNetV2Settings(norm="batch"), 9),
    ],
    ids=str,
)
def test_a_network_trains_on_single_images_from_its_least_side_on(model, least):
    for shape in ((3, least, least + 3), (1, least + 1, least)):
        logits = build_model(model, SampleForm(shape, 7), seed=0)(torch.ones(1, *shape))
        assert logits.shape == (1, 7)
        assert torch.isfinite(logits).all()
    with pytest.raises(ScenarioError, match=rf"{model.kind} needs images .* {least}x{least}"):
        build_model(model, SampleForm((1, least - 1, 28), 10), seed=0)


LAYERS = [
    (
        models.FedGraCnnSettings(),
        "Conv2d Sigmoid MaxPool2d Conv2d ReLU MaxPool2d Flatten Linear ReLU",
    ),
    (
        models.GpflCnnSettings(),
        "Conv2d MaxPool2d ReLU Conv2d MaxPool2d ReLU Conv2d ReLU Flatten Linear ReLU",
    ),
]


@pytest.mark.parametrize(("model", "layers"), LAYERS)
def test_activations_and_poolings_are_those_of_the_papers(model, layers):
    module = build_model(model, SampleForm((3, 32, 32), 10), seed=0)

    names = [type(layer).__name__ for layer in module.children()]
    assert names == [*layers.split(), "Linear"]


SMALL = "logistic, svm, 2nn"
MORE = f"{SMALL}, fedgra-cnn, gpfl-cnn, lenet5, resnet18, shufflenet-v2"
TOO_SMALL = [
    (models.LeNet5Settings(), DIGITS, f"{SMALL}, fedgra-cnn"),
    (models.ResNet18Settings(), DIGITS, f"{SMALL}, fedgra-cnn"),
    (models.Vgg16Settings(), MNIST, MORE),
    *((models.FedGraCnnSettings(), shape, SMALL) for shape in ((60,), (28, 28), (1, 3, 28))),
]


@pytest.mark.parametrize(("model", "shape", "fitting"), TOO_SMALL)
def test_images_too_small_are_refused_with_the_networks_that_fit(model, shape, fitting):
    message = rf"task.model.kind: {model.kind} .*{re.escape(str(shape))}; what fits: "
    with pytest.raises(ScenarioError, match=message) as caught:
        build_model(model, SampleForm(shape, 10), seed=0)

    named = set(str(caught.value).rpartition(": ")[2].split(", "))
    assert named & {*MORE.split(", "), "vgg16", "lstm"} == set(fitting.split(", "))


def built(model: models.ModelSettings, seed: int) -> nn.Module:
    if not model.reads_text:
        return build_model(model, SampleForm(MNIST, 10), seed=seed)
    return build_model(model, SampleForm((6,), 11, 11, is_sequence=True), seed=seed)


DRAWN = [
    models.TwoNNSettings(),
    models.LeNet5Settings(),
    models.ShuffleNetV2Settings(),
    models.LstmSettings(hidden=5),
]


@pytest.mark.parametrize("model", DRAWN, ids=str)
def test_initial_weights_are_what_pytorch_itself_draws_from_the_same_generator(model):
    ours, theirs = built(model, 5), built(model, 6)
    with torch.random.fork_rng():
        generator = torch.Generator().manual_seed(rng.torch_seed(5, "model"))
        torch.random.set_rng_state(generator.get_state())
        for layer in theirs.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d | nn.Embedding | nn.LSTM):
                layer.reset_parameters()

    np.testing.assert_array_equal(flatten(ours), flatten(theirs))


@pytest.mark.parametrize(
    "model", [*DRAWN, models.Gpt2Settings(layers=2, heads=2, width=8)], ids=str
)
def test_initial_weights_depend_on_the_seed_alone_and_leave_the_global_stream_alone(model):
    before = torch.random.get_rng_state()
    first, again, other = (flatten(built(model, seed)) for seed in (1, 1, 2))

    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


HALF = TwoNNSettings(hidden=(64, 30), dropout=0.5)
PLAIN = TwoNNSettings(hidden=(64, 30))
LOCAL = local(8)


def module(settings: TwoNNSettings = HALF) -> nn.Module:
    return build_model(settings, SampleForm((1, 5, 5), 3), seed=1)


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(20, 1, 5, 5, generator=generator)
    return inputs, torch.arange(20) % 3


def trained(net: nn.Module, seed: int, epochs: int = 2, most_steps: int | None = None) -> Array:
    stream = np.random.default_rng(seed)
    how = local_sgd.Passes(epochs=epochs, stream=stream, most_steps=most_steps)
    return vector_of(local_sgd.train(net, flatten(module()), *samples(), LOCAL, how))


def test_each_step_leaves_other_units_out_at_the_rate_asked_and_scales_the_others():
    layer, ones = nn.Sequential(Dropout(0.2), nn.Linear(1, 1)), torch.ones(100_000)
    with dropping_out(layer, np.random.default_rng(3)):
        out, again = layer[0](ones), layer[0](ones)

    assert not torch.equal(out, again)
    assert set(out.tolist()) == {0.0, 1.25}
    # Four standard deviations of a share of 100,000 draws.
    assert float((out == 0).double().mean()) == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / 1e5))
    assert torch.equal(layer[0](ones), ones)


def test_masks_are_the_jobs_own_and_no_others():
    net = module()
    first = trained(net, 7)
    torch.manual_seed(99)  # noqa: TID251 - of no effect
    again, other = trained(net, 7), trained(net, 8)

    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_a_training_that_is_cut_short_is_the_beginning_of_the_whole():
    """An epoch of 20 samples in batches of 8 has three steps."""
    net = module()

    assert trained(net, 7, epochs=1).tobytes() == trained(net, 7, most_steps=3).tobytes()


def test_gradients_and_evaluations_are_of_the_whole_network():
    base = flatten(module())
    for compute in (local_sgd.gradient, local_sgd.evaluate):
        with_dropout = compute(module(), base, *samples())
        without = compute(module(PLAIN), base, *samples())
        assert with_dropout.loss == without.loss
        if without.vector is not None and with_dropout.vector is not None:
            assert with_dropout.vector.tobytes() == without.vector.tobytes()
