import numpy as np
import torch

from fleetsim.kernels.device_samples import DeviceSamples
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.standardisation import from_pixels

_CPU = torch.device("cpu")
_MOMENTS = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.2470, 0.2435, 0.2616)}


def pictures(num: int) -> ByteImages:
    """Of all bytes, three channels each."""
    pixels = np.random.default_rng(0).integers(0, 256, (num, 3, 5, 7), dtype=np.uint8)
    return ByteImages(pixels, **_MOMENTS)


def test_bytes_become_the_numbers_that_they_stand_for() -> None:
    images = pictures(300)
    images.pixels[0].reshape(-1)[:] = np.arange(3 * 5 * 7)
    every = from_pixels(images.pixels, **_MOMENTS)
    rows = np.array([299, 0, 0, 7, *range(130, 280)])

    result = DeviceSamples(images, _CPU).take(torch.from_numpy(rows))

    assert result.dtype == torch.float32
    assert np.array_equal(result.numpy(), every[rows])
    assert np.array_equal(images[rows], every[rows])
    assert np.array_equal(np.asarray(images), every)
    assert (len(images), images.shape) == (300, every.shape)
