from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fleetsim import rng
from fleetsim.contracts import JobResult
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.conv.channels_last import ChannelsLastKernel
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.local.local_sgd import augmented
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.sample_losses import losses
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_settings import AugmentationSettings
from fleetsim.learning.models.settings import LeNet5Settings
from tests.learning.side_by_side import Client, Fleet, built, distance, vector_of

ALL = AugmentationSettings(flip_chance=0.5, crop_padding=2, noise_sd=0.1, mixup_alpha=0.4)
SHAPE = (1, 12, 12)


def images(num: int = 6) -> Tensor:
    """Images whose every pixel has a number of its own, from 1 on."""
    return torch.arange(1.0, num * 2 * 3 * 4 + 1).view(num, 2, 3, 4)


def stream(step: int = 1) -> np.random.Generator:
    return rng.stream(5, "augment", 3, 0, 1, step)


def changed(inputs: Tensor, **how: Any) -> Tensor:
    labels = torch.arange(len(inputs))
    return augmented(inputs, labels, AugmentationSettings(**how), stream()).inputs


def test_a_flip_mirrors_whole_images_left_to_right() -> None:
    assert torch.equal(changed(images(), flip_chance=1.0), images().flip(3))
    results = changed(images(200), flip_chance=0.25)
    is_flipped = (results == images(200).flip(3)).all(dim=(1, 2, 3))

    assert torch.equal(results[~is_flipped], images(200)[~is_flipped])
    # Binomial(200, 1/4): 50 +- 4 standard deviations of 6.1.
    assert 26 <= int(is_flipped.sum()) <= 74


@pytest.mark.parametrize("padding", [1, 2, 3, 4, 5, 9])
def test_a_crop_is_that_of_a_padded_image_for_any_padding(padding: int) -> None:
    down, right = stream().integers(2 * padding + 1, size=(2, 50))
    padded = torch.nn.functional.pad(images(50), (padding,) * 4)
    expected = [
        image[:, top : top + 3, left : left + 4]
        for image, top, left in zip(padded, down, right, strict=True)
    ]

    assert torch.equal(changed(images(50), crop_padding=padding), torch.stack(expected))


def test_a_crop_takes_no_memory_of_the_padding() -> None:
    """Images that were padded by 10,000 would take 19 GB."""
    assert not changed(images(), crop_padding=10_000).any()


def test_noise_has_its_standard_deviation() -> None:
    noise = changed(torch.zeros(400, 10, 10), noise_sd=0.3)

    # 40,000 draws: mean within 5 times .3 / 200, deviation within 5 times .3 / 283.
    assert abs(float(noise.mean())) < 0.0075
    assert abs(float(noise.std()) - 0.3) < 0.0053


def test_mixup_mixes_samples_and_losses_with_one_share() -> None:
    inputs, labels = torch.eye(4, dtype=torch.float64), torch.arange(4)
    batch = augmented(inputs, labels, AugmentationSettings(mixup_alpha=1.0), stream())
    assert batch.mixed_labels is not None
    by_hand = batch.share * inputs + (1 - batch.share) * inputs[batch.mixed_labels]

    assert 0.0 < batch.share < 1.0
    torch.testing.assert_close(batch.inputs, by_hand)
    scores = torch.from_numpy(rng.stream(1, "test/scores").normal(size=(4, 4)))
    soft = batch.share * torch.eye(4) + (1 - batch.share) * torch.eye(4)[batch.mixed_labels]
    expected = -(soft * scores.log_softmax(dim=1)).sum(dim=1)
    torch.testing.assert_close(batch.losses(scores, losses), expected)


def local(settings: AugmentationSettings) -> LocalSettings:
    sgd = SgdSettings(learning_rate=0.05)
    return LocalSettings(epochs=2, batch_size=8, optimizer=sgd, augmentation=settings)


FLEET = Fleet(
    built(LeNet5Settings(), SHAPE), [Client(25, 2), Client(15, 2)], shape=SHAPE, dtype=torch.float32
)


def trained(
    settings: AugmentationSettings, kind: type[Kernel] = Kernel, **change: Any
) -> JobResult:
    job = FLEET.jobs()[0]._replace(**change)
    return FLEET.kernel(kind, local(settings)).compute([job])[0]


def test_a_training_with_augmentation_is_a_function_of_its_job() -> None:
    one, again = trained(ALL), trained(ALL)

    assert vector_of(one).tobytes() == vector_of(again).tobytes()
    others = [
        trained(ALL, address=(2,)),
        trained(ALL, client=1),
        trained(AugmentationSettings()),
        *(trained(ALL.model_copy(update={key: 0})) for key in AugmentationSettings.model_fields),
    ]
    results = {vector_of(result).tobytes() for result in [one, *others]}
    assert len(results) == 1 + len(others)


def test_channels_last_augments_as_the_serial_trainer_does() -> None:
    assert distance(trained(ALL, ChannelsLastKernel), trained(ALL), FLEET.base(0)) < 1e-3


def test_a_kernel_that_cannot_augment_says_so() -> None:
    with pytest.raises(ValueError, match="are not augmented"):
        FLEET.kernel(VectorisedKernel, local(ALL))


@pytest.mark.parametrize(
    ("settings", "shape", "are_numbers", "key"),
    [
        (ALL, (64,), True, "flip_chance"),
        (ALL, (20,), False, "flip_chance"),
        (ALL, (1, 8, 8), True, None),
        (AugmentationSettings(noise_sd=0.1, mixup_alpha=0.1), (64,), True, None),
    ],
)
def test_samples_that_cannot_be_changed_so_are_named(settings, shape, are_numbers, key):
    fault = settings.fault(shape, are_numbers=are_numbers)

    assert (fault[0] if fault else None) == key
