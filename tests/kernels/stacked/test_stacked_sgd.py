"""Division of trainings into stacks, networks that can be stacked, and those with dual forms.

`test_stacks` compares the trainings themselves.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fleetsim.counts import Batching
from fleetsim.kernels.batches import Length
from fleetsim.kernels.cpu.gemm import Widths
from fleetsim.kernels.cpu.numerical_platform import forms
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.kernels.device_samples import DeviceSamples
from fleetsim.kernels.stacked import client_products, stacked_sgd
from fleetsim.kernels.stacked.client_products import ByteProducts, ClientProducts, NumberProducts
from fleetsim.kernels.stacked.dual_chain import dual_form_is_faster
from fleetsim.kernels.stacked.linear_chain import widths_of
from fleetsim.kernels.stacked.stacked_sgd import stacks
from fleetsim.learning.data.dataset import ByteImages
from tests.learning.side_by_side import chain, local


def test_stacks_are_bounded_by_weights_and_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A (6, 5, 4) chain has 59 weights and, at batch 5, 75 activations: 536 byte a client."""
    clients = [Length(20, 1)] * 8
    monkeypatch.setattr(stacked_sgd, "STACK_BYTE", 2 * 536)
    pairs = stacks((6, 5, 4), clients, Batching(5))
    monkeypatch.setattr(stacked_sgd, "STACK_BYTE", 2 * 536 - 1)
    singles = stacks((6, 5, 4), clients, Batching(5))

    assert pairs == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert singles == [[client] for client in range(8)]


@pytest.mark.parametrize(
    ("num_clients", "sizes_of_stacks"),
    [(1, [1]), (64, [64]), (65, [32, 33]), (150, [37, 37, 38, 38])],
)
def test_many_small_models_make_an_even_number_of_stacks(num_clients, sizes_of_stacks):
    cut = stacks((6, 4), [Length(5, 1)] * num_clients, Batching(5))

    assert sorted(map(len, cut)) == sizes_of_stacks


def test_stacks_get_equal_work_if_clients_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of 4, 4, 2, 2, 2, 2, 2 steps in four shares of 4.5: 4 | 4 | 6 | 4."""
    monkeypatch.setattr(stacked_sgd, "STACK_CLIENTS", 2)
    sizes = (20, 6, 6, 6, 6, 6, 20)
    cut = stacks((6, 5, 4), [Length(size, 1) for size in sizes], Batching(5))

    assert cut == [[0], [6], [1, 2, 3], [4, 5]]


def test_many_small_clients_beside_a_large_one_are_cut_again(monkeypatch):
    """Twelve clients of one step are less than an eighth of 112 steps, but no stack has over 4."""
    monkeypatch.setattr(stacked_sgd, "STACK_CLIENTS", 2)
    cut = stacks((6, 4), [Length(100, 1)] + [Length(1, 1)] * 12, Batching(1))

    assert list(map(len, cut)) == [1, 4, 4, 4]


lengths_of_jobs = st.lists(
    st.builds(Length, st.integers(1, 23), st.integers(1, 3), st.none() | st.integers(1, 30)),
    min_size=1,
    max_size=6,
)


@given(lengths_of_jobs, st.integers(1, 3), st.integers(1, 30))
def test_every_job_is_in_one_stack_that_is_not_too_large(lengths, usual, batch_size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked_sgd, "STACK_CLIENTS", usual)
        cut = stacks((6, 4), lengths, Batching(batch_size))
    order = [i for part in cut for i in part]
    steps = [lengths[i].num_steps(Batching(batch_size)) for i in order]

    assert sorted(order) == list(range(len(lengths)))
    assert all(1 <= len(part) <= 2 * usual for part in cut)
    assert steps == sorted(steps, reverse=True)


WIDTHS = (784, 200, 200, 10)


@pytest.mark.parametrize(
    ("widths", "lengths", "chosen", "is_faster"),
    [
        (WIDTHS, [Length(600, 5)], local(50), True),
        # Of 5 epochs, one is trained.
        (WIDTHS, [Length(600, 5, 12)], local(50), False),
        (WIDTHS, [Length(900, 5)], local(50), False),
        (WIDTHS, [Length(600, 5)], local(50, mu=0.1, weight_decay=0.1), True),
        (WIDTHS, [Length(600, 5)], local(50, momentum=0.9), False),
        # What all of a stack are padded to is the largest's.
        (WIDTHS, [Length(2000, 5), *[Length(60, 5)] * 4], local(50), False),
        # 4 byte * 2,000^2 = 16 MB a client, 32 MB for all.
        ((9000, 200, 10), [Length(2000, 9)] * 2, local(50), True),
        ((9000, 200, 10), [Length(2000, 9)] * 3, local(50), False),
        ((784, 10), [Length(60, 5)], local(50), False),
        # 60 * 30 weights are too few, whatever is saved; 784 * 26 = 20,384 are enough.
        ((60, 30, 10), [Length(10, 50)], local(10), False),
        ((784, 25, 10), [Length(60, 5)], local(50), False),
        ((784, 26, 10), [Length(60, 5)], local(50), True),
        # E epochs of 2 batches of 50. Plain: 4 * 100 E * 200 * 100 = 8e6 E. Dual: X X^T 100 * 200
        # * 200 = 4e6, X V and V 4 * 100 * 200 * 100 = 8e6, steps 2 * 100 E * 100 * 100 = 2e6 E.
        # 12e6 + 2e6 E <= 6.4e6 E from E = 2.73 on.
        ((200, 100, 10), [Length(100, 2)], local(50), False),
        ((200, 100, 10), [Length(100, 3)], local(50), True),
    ],
)
def test_the_sizes_for_which_the_dual_form_is_faster(widths, lengths, chosen, is_faster):
    assert dual_form_is_faster(widths, lengths, chosen) is is_faster


@pytest.mark.parametrize("widths", [(6, 4), (6, 8, 5, 3)])
def test_chains_of_linear_layers_with_relu_are_recognised(widths: Widths) -> None:
    assert widths_of(chain(widths)) == widths
    assert widths_of(chain(widths)[1:]) == widths  # samples that are flat already
    assert widths_of(chain(widths, "weston-watkins")) == widths


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(3, 2),
        nn.Sequential(nn.Flatten()),
        nn.Sequential(nn.Flatten(0), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(3, 2, bias=False)),
        nn.Sequential(nn.Linear(3, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(3, 2), nn.Sigmoid(), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.BatchNorm1d(2)),
        nn.Sequential(nn.Linear(3, 2).requires_grad_(False), nn.ReLU(), nn.Linear(2, 2)),
    ],
    ids=str,
)
def test_all_other_networks_are_not(module: nn.Module) -> None:
    assert widths_of(module) is None


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
