from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from fleetsim.kernels.cpu.numerical_platform import forms
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.kernels.device_samples import DeviceSamples
from fleetsim.kernels.stacked import client_products
from fleetsim.kernels.stacked.client_products import ByteProducts, ClientProducts, NumberProducts
from fleetsim.learning.data.dataset import ByteImages

CPU = torch.device("cpu")
UNITS = 4


def images(num: int, channels: int, side: int = 5) -> ByteImages:
    draw = np.random.default_rng(num)
    pixels = draw.integers(0, 256, (num, channels, side, side), dtype=np.uint8)
    mean, std = (0.49, 0.28, 0.45)[:channels], (0.25, 0.35, 0.2)[:channels]
    return ByteImages(pixels, mean, std)


def exact(pictures: ByteImages) -> Tensor:
    """(pixel / 255 - mean) / std, in float64 from the start."""
    scaled = torch.from_numpy(pictures.pixels).double() / 255
    # The moments are kept as float32.
    mean, std = (
        torch.tensor(each, dtype=torch.float32).double().view(-1, 1, 1)
        for each in (pictures.mean, pictures.std)
    )
    return ((scaled - mean) / std).flatten(1)


def drawn(rows: int, columns: int, dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    values = np.random.default_rng(rows + columns).normal(size=(rows, columns)) * scale
    return torch.from_numpy(values).to(dtype)


def all_three(
    products: ClientProducts, rows: Tensor, features: int, dtype: torch.dtype
) -> list[Tensor]:
    """X W^T + b, X X^T + 1 and A^T X of one client."""
    num = len(rows)
    weights, biases = drawn(UNITS, features, dtype, 0.1), drawn(1, UNITS, dtype)[0]
    # As a layer's moves lie in memory: one row for every sample.
    moves = drawn(num, UNITS, dtype, 0.01).t()
    shapes = ((num, UNITS), (num, num), (UNITS, features))
    results = [torch.full(shape, torch.nan, dtype=dtype) for shape in shapes]
    products.take(rows)
    products.outputs(products.layer(weights, biases), results[0])
    products.gram(results[1])
    products.combination(moves, results[2])
    return results


def by_definition(samples: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """The same in float64, with weights and moves of a number type."""
    num, features = samples.shape
    weights, biases = drawn(UNITS, features, dtype, 0.1).double(), drawn(1, UNITS, dtype).double()
    moves = drawn(num, UNITS, dtype, 0.01).t().double()
    return [samples @ weights.t() + biases, samples @ samples.t() + 1, moves @ samples]


def errors(results: list[Tensor], expected: list[Tensor]) -> list[float]:
    return [
        float((mine.double() - theirs).norm() / theirs.norm())
        for mine, theirs in zip(results, expected, strict=True)
    ]


@given(st.integers(1, 12), st.sampled_from([1, 3]), st.integers(1, 6))
@pytest.mark.usefixtures("whole_numbers")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_give_what_their_numbers_do_in_float64(num: int, channels: int, side: int) -> None:
    pictures = images(13, channels, side)
    rows = torch.from_numpy(np.random.default_rng(num).permutation(13)[:num])
    features = channels * side**2
    samples, like = DeviceSamples(pictures, CPU), torch.empty(0, dtype=torch.float64)
    results = all_three(ByteProducts(samples, like), rows, features, torch.float64)

    expected = by_definition(exact(pictures)[rows], torch.float64)
    for mine, theirs in zip(results, expected, strict=True):
        # Of sums whose terms may cancel.
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12 * features)


@pytest.mark.usefixtures("whole_numbers")
@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_in_float32_are_not_farther_off_than_floats(channels: int) -> None:
    pictures, rows = images(230, channels, 16), torch.arange(229, 9, -1)
    features, samples = channels * 16**2, DeviceSamples(images(230, channels, 16), CPU)
    expected = by_definition(exact(pictures)[rows], torch.float32)
    by_bytes = ByteProducts(samples, samples.like)
    by_floats = NumberProducts(samples, 220, UNITS, Workspace())
    whole, plain = (
        errors(all_three(each, rows, features, torch.float32), expected)
        for each in (by_bytes, by_floats)
    )

    assert max(plain) < 1e-6
    for mine, theirs in zip(whole, plain, strict=True):
        assert mine <= 1.5 * theirs


@pytest.mark.usefixtures("whole_numbers")
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_and_moves_that_are_not_finite_are_not_hidden(bad: float) -> None:
    samples = DeviceSamples(images(6, 1), CPU)
    products = ByteProducts(samples, samples.like)
    weights, moves = torch.ones(2, 25), torch.ones(2, 6)
    weights[1, 3] = moves[1, 3] = bad
    outputs, sums = torch.empty(6, 2), torch.empty(2, 25)
    products.take(torch.arange(6))
    products.outputs(products.layer(weights, torch.zeros(2)), outputs)
    products.combination(moves, sums)

    assert torch.isfinite(outputs[:, 0]).all()
    assert not torch.isfinite(outputs[:, 1]).any()
    assert torch.isfinite(sums[0]).all()
    assert not torch.isfinite(sums[1]).any()


FASTER = [
    (150, True, images(2, 1), ByteProducts),
    (149, True, images(2, 1), NumberProducts),
    (150, False, images(2, 1), NumberProducts),
    (150, True, np.zeros((2, 25), np.float32), NumberProducts),
    (2**16, True, images(2, 1), ByteProducts),
    (2**16 + 1, True, images(2, 1), NumberProducts),
    (150, True, images(1, 1, 256), ByteProducts),
    (150, True, images(1, 1, 257), NumberProducts),
]


@pytest.mark.parametrize(("num", "is_fast", "samples", "kind"), FASTER)
def test_bytes_are_multiplied_where_that_is_faster_and_nothing_overflows(
    num, is_fast, samples, kind, monkeypatch
):
    chosen = replace(forms(), bytes_as_whole_numbers=is_fast)
    monkeypatch.setattr(client_products, "forms", lambda: chosen)
    result = client_products.products_of(DeviceSamples(samples, CPU), num, 3, Workspace())

    assert type(result) is kind
