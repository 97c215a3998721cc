"""Stacks of clients against `local_sgd.train`, one client at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import JobResult
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.kernels.batches import Length
from fleetsim.learning.kernels.cpu.gemm import Widths
from fleetsim.learning.kernels.cpu.workspace import Workspace
from fleetsim.learning.kernels.device_samples import Samples
from fleetsim.learning.kernels.stacked import stacked_sgd
from fleetsim.learning.kernels.stacked.dual_chain import DualChainStack
from fleetsim.learning.kernels.stacked.linear_chain import ChainStack, widths_of
from fleetsim.learning.kernels.stacked.single_layer import SingleLayerStack
from fleetsim.learning.kernels.stacked.stacked_sgd import stacks, train_stack, train_together
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.settings import LocalSettings, SgdSettings
from fleetsim.learning.models.flat_vector import flatten, load_flat
from fleetsim.learning.models.hinge_loss import LinearSvm
from fleetsim.learning.models.settings import Hinge
from tests.learning.stack_jobs import stack_job

Array = NDArray[Any]
HINGES: list[Hinge | None] = [None, "crammer-singer", "weston-watkins", "one-vs-rest"]
"""Losses; None: cross-entropy."""
SHAPES: list[Widths] = [(6, 4), (6, 5, 4), (6, 8, 5, 3), (6, 11)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """As trainers do it; tiny operations on many threads take ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Client:
    size: int
    epochs: int
    base: int
    """Which of the models it starts from."""
    most_steps: int | None = None
    """It is stopped after so many."""
    tells: bool = False
    """True if it reports the loss of each epoch."""


clients_of_all_sizes = st.lists(
    st.builds(
        Client,
        size=st.integers(1, 23),
        epochs=st.integers(1, 3),
        base=st.integers(0, 2),
        most_steps=st.none() | st.integers(1, 30),
        tells=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)
local_settings = st.builds(
    lambda batch_size, momentum, weight_decay, mu: LocalSettings(
        epochs=1,
        batch_size=batch_size,
        optimizer=SgdSettings(learning_rate=0.1, momentum=momentum, weight_decay=weight_decay),
        proximal_mu=mu,
    ),
    batch_size=st.integers(1, 30),
    momentum=st.sampled_from([0.0, 0.9]),
    weight_decay=st.sampled_from([0.0, 0.05]),
    mu=st.sampled_from([0.0, 0.5]),
)


def plain(batch_size: int = 5, learning_rate: float = 0.1) -> LocalSettings:
    sgd = SgdSettings(learning_rate=learning_rate)
    return LocalSettings(epochs=1, batch_size=batch_size, optimizer=sgd)


PULLED = LocalSettings(
    epochs=1,
    batch_size=5,
    optimizer=SgdSettings(learning_rate=0.1, weight_decay=0.05),
    proximal_mu=0.5,
)
"""Weight decay and the proximal term."""


def chain(widths: Widths) -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def samples(widths: Widths, num: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    draw = rng.stream(5, "test/samples")
    inputs = torch.from_numpy(draw.normal(size=(num, widths[0]))).to(dtype)
    return inputs, torch.from_numpy(draw.integers(widths[-1], size=num))


def table(inputs: Tensor) -> Samples:
    return Samples(inputs.numpy(), torch.device("cpu"))


def base_of(widths: Widths, version: int, dtype: torch.dtype) -> Array:
    draw = rng.stream(5, "test/base", version)
    weights: Array = draw.normal(size=flatten(chain(widths)).size) * 0.4
    return weights.astype(str(dtype).removeprefix("torch."))


def shares_of(clients: Sequence[Client]) -> list[Array]:
    """Rows of clients who own consecutive ones, in an order of no meaning."""
    ends = np.cumsum([client.size for client in clients])
    order = rng.stream(5, "test/rows").permutation(ends[-1])
    return np.split(order, ends[:-1])


def svm(widths: Widths, hinge: Hinge) -> LinearSvm:
    """A chain of linear layers, trained on a hinge loss."""
    return LinearSvm(OrderedDict(chain(widths).named_children()), hinge)


def one_by_one(
    widths: Widths,
    clients: Sequence[Client],
    chosen: LocalSettings,
    dtype: torch.dtype,
    hinge: Hinge | None = None,
) -> list[JobResult]:
    inputs, labels = samples(widths, sum(client.size for client in clients), dtype)
    module = (chain(widths) if hinge is None else svm(widths, hinge)).to(dtype)
    return [
        local_sgd.train(
            module,
            base_of(widths, client.base, dtype),
            inputs[rows],
            labels[rows],
            chosen,
            epochs=client.epochs,
            stream=rng.stream(5, "test/client", index),
            most_steps=client.most_steps,
            tells_epoch_losses=client.tells,
        )
        for index, (client, rows) in enumerate(zip(clients, shares_of(clients), strict=True))
    ]


def together(
    widths: Widths,
    clients: Sequence[Client],
    chosen: LocalSettings,
    dtype: torch.dtype,
    hinge: Hinge | None = None,
) -> list[JobResult]:
    inputs, labels = samples(widths, sum(client.size for client in clients), dtype)
    bases = [base_of(widths, version, dtype) for version in range(3)]
    jobs = [
        stack_job(
            bases[client.base],
            rows,
            client.epochs,
            rng.stream(5, "test/client", index),
            client.most_steps,
            tells_epoch_losses=client.tells,
        )
        for index, (client, rows) in enumerate(zip(clients, shares_of(clients), strict=True))
    ]
    return train_together(widths, jobs, table(inputs), labels, chosen, hinge=hinge)


def lengths_of(clients: Sequence[Client]) -> list[Length]:
    return [Length(client.size, client.epochs, client.most_steps) for client in clients]


def vector_of(result: JobResult) -> Array:
    assert result.vector is not None
    return result.vector


def error(result: JobResult, expected: JobResult, base: Array) -> float:
    """Distance to the expected weights, relative to the update; 0 if there is none to either."""
    gap = np.linalg.norm(vector_of(result) - vector_of(expected))
    return float(gap / np.linalg.norm(vector_of(expected) - base)) if gap else 0.0


def assert_as_one_by_one(
    widths: Widths, clients: Sequence[Client], chosen: LocalSettings, hinge: Hinge | None
) -> None:
    """In float64, stacks yield what `local_sgd.train` does."""
    dtype = torch.float64
    expected = one_by_one(widths, clients, chosen, dtype, hinge)
    found = together(widths, clients, chosen, dtype, hinge)

    for client, result, reference in zip(clients, found, expected, strict=True):
        assert vector_of(result).dtype == np.float64
        assert error(result, reference, base_of(widths, client.base, dtype)) <= 1e-12
        assert result.num_samples == reference.num_samples == client.size
        assert result.loss == pytest.approx(reference.loss, rel=1e-12)
        assert result.loss_rms == pytest.approx(reference.loss_rms, rel=1e-12)
        assert result.accuracy is None
        assert (result.epoch_losses is not None) == client.tells
        if result.epoch_losses is not None:
            assert result.epoch_losses == pytest.approx(reference.epoch_losses, rel=1e-12)
            assert result.epoch_losses[-1] == result.loss


@given(st.sampled_from(SHAPES), clients_of_all_sizes, local_settings, st.sampled_from(HINGES))
@example(SHAPES[2], [Client(7, 2, 0), Client(23, 1, 1), Client(1, 3, 2)], plain(3), None)
@example(SHAPES[0], [Client(7, 2, 0), Client(23, 1, 1)], plain(3), "crammer-singer")
@example(SHAPES[0], [Client(7, 2, 0), Client(23, 1, 1)], plain(3), "weston-watkins")
@example(SHAPES[0], [Client(7, 2, 0), Client(23, 1, 1)], plain(3), "one-vs-rest")
@example(SHAPES[2], [Client(7, 2, 0, 4), Client(23, 3, 1, 9), Client(1, 3, 2, 1)], plain(), None)
@example(SHAPES[2], [Client(7, 2, 0, 3, True), Client(23, 3, 1, 9, True)], plain(), None)
@example(SHAPES[0], [Client(7, 3, 0), Client(9, 3, 1, None, True)], plain(3), "weston-watkins")
@example(SHAPES[3], [Client(7, 2, 0), Client(23, 3, 1), Client(1, 3, 2)], plain(), None)
@example(SHAPES[3], [Client(7, 2, 0), Client(23, 3, 1)], plain(), "crammer-singer")
@example(SHAPES[3], [Client(7, 2, 0), Client(23, 3, 1)], plain(), "weston-watkins")
@example(SHAPES[3], [Client(7, 2, 0), Client(23, 3, 1)], plain(), "one-vs-rest")
@settings(max_examples=160)
def test_a_stack_equals_one_client_after_the_other_in_float64(
    widths: Widths, clients: list[Client], chosen: LocalSettings, hinge: Hinge | None
) -> None:
    assert_as_one_by_one(widths, clients, chosen, hinge)


@given(st.sampled_from(SHAPES), clients_of_all_sizes, st.sampled_from(HINGES))
@settings(max_examples=20)
def test_telling_what_epochs_lost_changes_no_bit_of_the_rest(
    widths: Widths, clients: list[Client], hinge: Hinge | None
) -> None:
    silent = [replace(client, tells=False) for client in clients]
    chosen = plain()
    found = together(widths, clients, chosen, torch.float32, hinge)
    plainly = together(widths, silent, chosen, torch.float32, hinge)

    for result, reference in zip(found, plainly, strict=True):
        assert vector_of(result).tobytes() == vector_of(reference).tobytes()
        assert (result.loss, result.loss_rms) == (reference.loss, reference.loss_rms)
        assert reference.epoch_losses is None


@given(st.sampled_from(SHAPES), clients_of_all_sizes, st.sampled_from([0.0, 0.05]))
@settings(max_examples=40)
def test_one_step_in_float32_differs_by_rounding_alone(
    widths: Widths, clients: list[Client], weight_decay: float
) -> None:
    once = [Client(client.size, 1, client.base) for client in clients]
    sgd = SgdSettings(learning_rate=1.0, weight_decay=weight_decay)
    chosen = LocalSettings(epochs=1, batch_size=23, optimizer=sgd)
    dtype = torch.float32
    expected = one_by_one(widths, once, chosen, dtype)
    found = together(widths, once, chosen, dtype)

    for client, result, reference in zip(once, found, expected, strict=True):
        assert vector_of(result).dtype == np.float32
        assert error(result, reference, base_of(widths, client.base, dtype)) <= 1e-5
        assert result.loss == pytest.approx(reference.loss, rel=1e-5)


@pytest.fixture
def _always_dual(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dual form wherever there is one, for networks far too small for it to pay."""
    monkeypatch.setattr(
        stacked_sgd,
        "dual_form_is_faster",
        lambda widths, _lengths, chosen: len(widths) > 2 and not chosen.optimizer.momentum,
    )


@given(
    st.sampled_from([(6, 5, 4), (6, 8, 5, 3), (30, 3, 2)]),
    clients_of_all_sizes,
    local_settings,
    st.sampled_from(HINGES),
)
@example(SHAPES[2], [Client(7, 2, 0), Client(23, 1, 1), Client(1, 3, 2)], plain(3), None)
@example(SHAPES[2], [Client(7, 2, 0, 4), Client(23, 3, 1, 9), Client(1, 3, 2, 1)], plain(), None)
@example(SHAPES[1], [Client(7, 3, 0), Client(23, 3, 1, None, True)], plain(5), "one-vs-rest")
@example(SHAPES[1], [Client(5, 2, 0), Client(23, 3, 0)], PULLED, None)
@pytest.mark.usefixtures("_always_dual")
@settings(max_examples=160, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_dual_form_equals_one_client_after_the_other_in_float64(
    widths: Widths, clients: list[Client], chosen: LocalSettings, hinge: Hinge | None
) -> None:
    assert_as_one_by_one(widths, clients, chosen, hinge)


@given(st.sampled_from([SHAPES[1], SHAPES[2]]), clients_of_all_sizes)
@pytest.mark.usefixtures("_always_dual")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_step_of_the_dual_form_in_float32_differs_by_rounding_alone(
    widths: Widths, clients: list[Client]
) -> None:
    once = [Client(client.size, 1, client.base) for client in clients]
    expected = one_by_one(widths, once, plain(23, 1.0), torch.float32)
    found = together(widths, once, plain(23, 1.0), torch.float32)

    for client, result, reference in zip(once, found, expected, strict=True):
        assert vector_of(result).dtype == np.float32
        assert error(result, reference, base_of(widths, client.base, torch.float32)) <= 1e-5
        assert result.loss == pytest.approx(reference.loss, rel=1e-5)


@pytest.mark.usefixtures("_always_dual")
def test_many_steps_of_the_dual_form_in_float32_stay_near_float64() -> None:
    """Not farther than ten times the plain loop is from itself in float64."""
    widths: Widths = (30, 8, 3)
    clients = [Client(40, 6, 0), Client(35, 6, 1)]
    exact = one_by_one(widths, clients, plain(5), torch.float64)
    found = together(widths, clients, plain(5), torch.float32)
    loop = one_by_one(widths, clients, plain(5), torch.float32)

    for client, dual, serial, reference in zip(clients, found, loop, exact, strict=True):
        base = base_of(widths, client.base, torch.float64)
        assert error(dual, reference, base) <= 10 * error(serial, reference, base) <= 1e-4


@pytest.mark.usefixtures("_always_dual", "whole_numbers")
@pytest.mark.parametrize("chosen", [plain(5), PULLED], ids=["plain", "pulled"])
def test_images_that_are_bytes_stay_near_float64_in_whole_numbers(chosen: LocalSettings) -> None:
    """As the dual form of floats: not farther than ten times the plain loop, which reads floats."""
    widths: Widths = (3 * 4 * 5, 8, 3)
    draw = rng.stream(5, "test/pixels")
    images = ByteImages(
        draw.integers(0, 256, (75, 3, 4, 5), dtype=np.uint8), (0.5, 0.4, 0.6), (0.25, 0.2, 0.3)
    )
    labels = torch.from_numpy(draw.integers(3, size=75))
    shares = np.split(draw.permutation(75), [40])

    def alone(index: int, dtype: torch.dtype) -> JobResult:
        numbers = torch.from_numpy(images[shares[index]]).to(dtype)
        return local_sgd.train(
            chain(widths).to(dtype),
            base_of(widths, index, dtype),
            numbers,
            labels[shares[index]],
            chosen,
            epochs=6,
            stream=rng.stream(5, "test/client", index),
        )

    jobs = [
        stack_job(base_of(widths, i, torch.float32), rows, 6, rng.stream(5, "test/client", i))
        for i, rows in enumerate(shares)
    ]
    samples_of_all = Samples(images, torch.device("cpu"))
    found = train_together(widths, jobs, samples_of_all, labels, chosen)

    for index, result in enumerate(found):
        exact, base = alone(index, torch.float64), base_of(widths, index, torch.float64)
        near = error(alone(index, torch.float32), exact, base)
        assert error(result, exact, base) <= 10 * near <= 1e-4
        assert result.loss == pytest.approx(exact.loss, rel=1e-5)


@pytest.mark.usefixtures("_always_dual")
def test_what_a_workspace_held_before_does_not_show() -> None:
    """Larger, smaller, and full of what is no number."""
    inputs, labels = samples(SHAPES[2], 60, torch.float32)
    shares = np.split(np.arange(60), [9, 30])
    space = Workspace()

    def train(share: Array, base: Array, memory: Workspace) -> bytes:
        job = stack_job(base, share, 2, rng.stream(5, "test/client"))
        (result,) = train_stack(SHAPES[2], [job], table(inputs), labels, plain(), space=memory)
        return vector_of(result).tobytes()

    good = base_of(SHAPES[2], 0, torch.float32)
    train(shares[2], np.full_like(good, np.nan), space)
    for share in (shares[1], shares[0], shares[2]):
        assert train(share, good, space) == train(share, good, Workspace())


@pytest.mark.usefixtures("_always_dual")
def test_the_dual_form_takes_the_steps_where_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """23, then 7 of 2 models take ceil(23 / 5) = 5 steps together; a single layer has no such."""
    taken = []
    step = DualChainStack.step

    def spy(self: DualChainStack, rows: Tensor, *others: Any) -> None:
        taken.append(rows.numel())
        step(self, rows, *others)

    monkeypatch.setattr(DualChainStack, "step", spy)
    clients = [Client(7, 1, 0), Client(23, 1, 1)]
    together(SHAPES[0], clients, plain(5), torch.float32)
    assert taken == []
    together(SHAPES[1], clients, plain(5), torch.float32)
    assert taken == [10, 10, 5, 5, 5]


def test_single_layers_on_small_batches_have_steps_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """23, then 7 of 2 models take ceil(23 / 5) = 5 steps together."""
    taken = []
    step = SingleLayerStack.step

    def spy(self: SingleLayerStack, rows: Tensor, *others: Any) -> None:
        taken.append(rows.numel())
        step(self, rows, *others)

    monkeypatch.setattr(SingleLayerStack, "step", spy)
    together(SHAPES[3], [Client(7, 1, 0), Client(23, 1, 1)], plain(5), torch.float32)
    assert taken == [10, 10, 5, 5, 5]
    together(SHAPES[0], [Client(7, 1, 0), Client(23, 1, 1)], plain(5), torch.float32)
    together(SHAPES[3], [Client(7, 1, 0), Client(23, 1, 1)], plain(16), torch.float32)
    assert len(taken) == 5


def test_how_the_stacks_are_cut_changes_nothing_but_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    widths, clients = SHAPES[1], [Client(size, 2, 0) for size in (3, 17, 5, 11, 2)]
    whole = together(widths, clients, plain(), torch.float64)
    monkeypatch.setattr(stacked_sgd, "STACK_BYTE", 1)
    alone = together(widths, clients, plain(), torch.float64)

    for result, reference in zip(alone, whole, strict=True):
        np.testing.assert_allclose(vector_of(result), vector_of(reference), rtol=1e-12)


def test_stacks_are_bounded_by_weights_and_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A (6, 5, 4) chain has 59 weights and, at batch 5, 75 activations: 536 byte a client."""
    clients = lengths_of([Client(20, 1, 0)] * 8)
    monkeypatch.setattr(stacked_sgd, "STACK_BYTE", 2 * 536)
    pairs = stacks((6, 5, 4), clients, 5)
    monkeypatch.setattr(stacked_sgd, "STACK_BYTE", 2 * 536 - 1)
    singles = stacks((6, 5, 4), clients, 5)

    assert pairs == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert singles == [[client] for client in range(8)]


@pytest.mark.parametrize(
    ("num_clients", "sizes_of_stacks"),
    [(1, [1]), (64, [64]), (65, [32, 33]), (150, [37, 37, 38, 38])],
)
def test_many_small_models_make_an_even_number_of_stacks(
    num_clients: int, sizes_of_stacks: list[int]
) -> None:
    cut = stacks((6, 4), lengths_of([Client(5, 1, 0)] * num_clients), 5)

    assert sorted(map(len, cut)) == sizes_of_stacks


def test_a_large_model_leaves_five_clients_to_a_stack() -> None:
    """4 byte * (199,210 + 50 * 1,194) = 1.04 MB a client."""
    ten = stacks((784, 200, 200, 10), lengths_of([Client(600, 5, 0)] * 10), 50)

    assert ten == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_stacks_get_equal_work_if_clients_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of 4, 4, 2, 2, 2, 2, 2 steps in four shares of 4.5: 4 | 4 | 6 | 4."""
    monkeypatch.setattr(stacked_sgd, "STACK_CLIENTS", 2)
    sizes = (20, 6, 6, 6, 6, 6, 20)
    cut = stacks((6, 5, 4), lengths_of([Client(size, 1, 0) for size in sizes]), 5)

    assert cut == [[0], [6], [1, 2, 3], [4, 5]]


def test_a_client_of_more_work_than_its_share_leaves_the_next_stack_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 12 steps in two shares of 6, the middle of the first 10 is 5 and of the last 2 is 11."""
    monkeypatch.setattr(stacked_sgd, "STACK_CLIENTS", 1)

    assert stacks((6, 4), lengths_of([Client(10, 1, 0), Client(2, 1, 0)]), 1) == [[0], [1]]


def test_many_small_clients_beside_a_large_one_are_cut_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve clients of one step are less than an eighth of 112 steps, but no stack has over 4."""
    monkeypatch.setattr(stacked_sgd, "STACK_CLIENTS", 2)
    cut = stacks((6, 4), lengths_of([Client(100, 1, 0)] + [Client(1, 1, 0)] * 12), 1)

    assert list(map(len, cut)) == [1, 4, 4, 4]


@given(clients_of_all_sizes, st.integers(1, 3), st.integers(1, 30))
def test_every_job_is_in_one_stack_that_is_not_too_large(
    clients: list[Client], usual: int, batch_size: int
) -> None:
    jobs = lengths_of(clients)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked_sgd, "STACK_CLIENTS", usual)
        cut = stacks((6, 4), jobs, batch_size)
    steps = [
        local_sgd.num_steps(clients[i].size, clients[i].epochs, batch_size, clients[i].most_steps)
        for part in cut
        for i in part
    ]

    assert sorted(i for part in cut for i in part) == list(range(len(clients)))
    assert all(1 <= len(part) <= 2 * usual for part in cut)
    assert steps == sorted(steps, reverse=True)


def test_a_stack_in_the_wrong_order_is_refused() -> None:
    inputs, labels = samples(SHAPES[0], 12, torch.float32)
    base, stream = base_of(SHAPES[0], 0, torch.float32), rng.stream(5, "test/unused")
    jobs = [stack_job(base, np.arange(size), 1, stream) for size in (5, 12)]

    with pytest.raises(ValueError, match=r"fewer and fewer steps, not \[1, 3\]"):
        train_stack(SHAPES[0], jobs, table(inputs), labels, plain())


def test_no_client_trains_longer_than_its_samples_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes 20, 6 and 3 in batches of 5 are 4, 2 and 1 steps: prefixes of 3, 2, 1 and 1."""
    prefixes: list[int] = []
    step = ChainStack.step

    def spy(self: Any, rows: Tensor, *rest: Tensor) -> None:
        prefixes.append(len(rows) // 5)
        step(self, rows, *rest)

    monkeypatch.setattr(ChainStack, "step", spy)
    together(SHAPES[0], [Client(size, 1, 0) for size in (3, 20, 6)], plain(), torch.float32)

    assert prefixes == [3, 2, 1, 1]


def test_a_bad_model_of_one_client_does_not_touch_the_others() -> None:
    widths, clients = SHAPES[2], [Client(7, 2, 0), Client(9, 1, 1)]
    inputs, labels = samples(widths, 16, torch.float32)
    good, bad = base_of(widths, 0, torch.float32), base_of(widths, 1, torch.float32)
    bad[:] = np.nan
    shares = shares_of(clients)

    def train(bases: list[Array]) -> list[JobResult]:
        jobs = [
            stack_job(base, rows, 2, rng.stream(5, "test/client"))
            for base, rows in zip(bases, shares, strict=True)
        ]
        return train_together(widths, jobs, table(inputs), labels, plain())

    mixed, healthy = train([good, bad]), train([good, good])

    assert not np.isfinite(vector_of(mixed[1])).any()
    assert vector_of(mixed[0]).tobytes() == vector_of(healthy[0]).tobytes()


def test_bases_are_never_changed() -> None:
    widths = SHAPES[0]
    inputs, labels = samples(widths, 4, torch.float32)
    base = base_of(widths, 0, torch.float32)
    base.flags.writeable = False
    before = base.tobytes()
    job = stack_job(base, np.arange(4), 1, rng.stream(5, "test/client"))
    result = train_together(widths, [job], table(inputs), labels, plain())[0]

    assert base.tobytes() == before
    assert vector_of(result).tobytes() != before


def test_nothing_to_train_is_nothing_computed() -> None:
    inputs, labels = samples(SHAPES[0], 1, torch.float32)

    assert train_together(SHAPES[0], [], table(inputs), labels, plain()) == []


# --- what can be stacked ------------------------------------------------------------------------


@pytest.mark.parametrize("widths", SHAPES)
def test_chains_of_linear_layers_with_relu_are_recognised(widths: Widths) -> None:
    assert widths_of(chain(widths)) == widths
    assert widths_of(chain(widths)[1:]) == widths  # samples that are flat already
    assert widths_of(svm(widths, "weston-watkins")) == widths


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(3, 2),
        nn.Sequential(),
        nn.Sequential(nn.Flatten()),
        nn.Sequential(nn.Flatten(0), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(3, 2, bias=False)),
        nn.Sequential(nn.Linear(3, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(3, 2), nn.Sigmoid(), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.BatchNorm1d(2)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(3, 2).requires_grad_(False), nn.ReLU(), nn.Linear(2, 2)),
    ],
    ids=str,
)
def test_all_other_networks_are_not(module: nn.Module) -> None:
    assert widths_of(module) is None


def test_a_stack_takes_and_gives_vectors_in_the_layout_of_models() -> None:
    """Without any step to take (learning rate near 0) the result is the base, entry by entry."""
    widths = SHAPES[2]
    module = chain(widths)
    base = base_of(widths, 0, torch.float32)
    load_flat(module, base)
    inputs, labels = samples(widths, 5, torch.float32)
    job = stack_job(flatten(module), np.arange(5), 1, rng.stream(5, "test/client"))
    result = train_together(widths, [job], table(inputs), labels, plain(learning_rate=1e-30))[0]

    np.testing.assert_array_equal(vector_of(result), base)
    expected = local_sgd.evaluate(module, base, inputs, labels)
    assert result.loss == pytest.approx(expected.loss, rel=1e-6)
