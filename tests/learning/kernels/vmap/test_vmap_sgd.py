"""Clients trained at once by vmap against `local_sgd.train`, one client at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import JobResult
from fleetsim.learning.kernels.batches import Length, StackJob
from fleetsim.learning.kernels.vmap import vmap_sgd
from fleetsim.learning.kernels.vmap.model_stack import ModelStack
from fleetsim.learning.kernels.vmap.vmap_sgd import (
    Footprint,
    fault,
    footprint,
    stacks,
    train_together,
)
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.settings import LocalSettings, SgdSettings
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.settings import LstmSettings
from tests.learning.side_by_side import (
    EVERY_TERM,
    NUM_CLASSES,
    PUBLISHED,
    SMALL,
    TEXT,
    Client,
    Fleet,
    assert_equal,
    batch_norm_net,
    built,
    plain,
    published,
    vector_of,
)
from tests.learning.stack_jobs import stack_job

clients_of_all_sizes = st.lists(
    st.builds(
        Client,
        size=st.integers(1, 17),
        epochs=st.integers(1, 3),
        base=st.integers(0, 2),
        most_steps=st.none() | st.integers(1, 20),
        tells=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
local_settings = st.builds(
    lambda batch_size, momentum, weight_decay, mu: LocalSettings(
        epochs=1,
        batch_size=batch_size,
        optimizer=SgdSettings(learning_rate=0.1, momentum=momentum, weight_decay=weight_decay),
        proximal_mu=mu,
    ),
    batch_size=st.integers(1, 20),
    momentum=st.sampled_from([0.0, 0.9]),
    weight_decay=st.sampled_from([0.0, 0.05]),
    mu=st.sampled_from([0.0, 0.5]),
)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As in a run; on more, tests that share a machine slow each other down."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@given(st.sampled_from(sorted(SMALL)), clients_of_all_sizes, local_settings)
@example("batch norm", [Client(7, 2, 0), Client(23, 1, 1), Client(2, 3, 2)], EVERY_TERM)
@example("batch norm", [Client(7, 2, 0, 2), Client(23, 3, 1, 9), Client(2, 3, 2)], EVERY_TERM)
@example("batch norm", [Client(7, 2, 0, 4, True), Client(23, 3, 1, 9, True)], EVERY_TERM)
@example("gpt", [Client(7, 2, 0), Client(23, 1, 1), Client(1, 3, 2)], EVERY_TERM)
@example("gpt", [Client(7, 2, 0), Client(23, 1, 1, None, True), Client(1, 3, 2)], EVERY_TERM)
@example("frozen", [Client(5, 2, 0), Client(1, 1, 1)], EVERY_TERM)
@settings(max_examples=100)
def test_clients_at_once_equal_one_after_the_other_in_float64(
    name: str, clients: list[Client], chosen: LocalSettings
) -> None:
    fleet = Fleet(SMALL[name](), clients)

    assert_equal(fleet, fleet.together(chosen), fleet.one_by_one(chosen))


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(
            index,
            marks=[pytest.mark.slow] if model.kind in {"resnet18", "vgg16"} else [],
            id="-".join(filter(None, (model.kind, getattr(model, "norm", None)))),
        )
        for index, (model, _) in enumerate(PUBLISHED)
    ],
)
def test_every_network_is_trained_as_one_client_after_the_other(index: int) -> None:
    """With unequal sizes, a smaller last batch and running statistics; then one float32 step."""
    module, shape = published(index)
    # Steps are small, because BatchNorm over few values blows rounding up from step to step.
    sgd = SgdSettings(learning_rate=0.01, momentum=0.9, weight_decay=0.05)
    chosen = LocalSettings(epochs=1, batch_size=6, optimizer=sgd, proximal_mu=0.5)
    exact = Fleet(module, [Client(11), Client(6, base=1)], shape=shape)

    assert_equal(exact, exact.together(chosen), exact.one_by_one(chosen))

    rounded = Fleet(module, [Client(6), Client(5, base=1)], shape=shape, dtype=torch.float32)

    # One unit that rounds to the other side of a ReLU changes such a small step by a percent.
    assert max(rounded.errors(rounded.together(chosen), rounded.one_by_one(chosen))) <= 0.05


@given(st.sampled_from(sorted(SMALL)), clients_of_all_sizes, st.sampled_from([0.0, 0.05]))
@settings(max_examples=40)
def test_one_step_in_float32_differs_by_rounding_alone(
    name: str, clients: list[Client], weight_decay: float
) -> None:
    sgd = SgdSettings(learning_rate=0.5, weight_decay=weight_decay)
    chosen = LocalSettings(epochs=1, batch_size=23, optimizer=sgd)
    once = [Client(client.size, 1, client.base) for client in clients]
    fleet = Fleet(SMALL[name](), once, dtype=torch.float32)
    expected = fleet.one_by_one(chosen)
    found = fleet.together(chosen)

    assert max(fleet.errors(found, expected)) <= 1e-3
    for result, reference in zip(found, expected, strict=True):
        assert vector_of(result).dtype == np.float32
        assert result.loss == pytest.approx(reference.loss, rel=1e-5)


def test_running_statistics_are_those_of_each_client() -> None:
    """One step on [0, 2] and on [10, 30]: .9 x 0 + .1 x mean, .9 x 1 + .1 x unbiased variance."""
    norm = nn.BatchNorm1d(1, affine=False)
    norm.num_batches_tracked = None
    net = nn.Sequential(norm, nn.Linear(1, 2))
    inputs = torch.tensor([[0.0], [2.0], [10.0], [30.0]])
    base = flatten(net)
    jobs = [stack_job(base, np.arange(k, k + 2), 1, rng.stream(5, "test", k)) for k in (0, 2)]
    found = train_together(net, jobs, inputs, torch.tensor([0, 1, 0, 1]), plain())

    assert [slot.name for slot in layout(net)][:2] == ["0.running_mean", "0.running_var"]
    np.testing.assert_allclose(vector_of(found[0])[:2], [0.1, 1.1], rtol=1e-6)
    np.testing.assert_allclose(vector_of(found[1])[:2], [2.0, 20.9], rtol=1e-6)


def test_samples_of_weight_zero_never_reach_a_batch_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes 8, 5 and 3 in batches of 5 are 5 + 3, 5 and 3: only equal batches are together."""
    shapes: list[tuple[int, ...]] = []
    step = ModelStack.step

    def spy(self: Any, who: Any, inputs: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        shapes.append(tuple(weights.shape))
        assert (weights > 0).all()
        return step(self, who, inputs, labels, weights)

    monkeypatch.setattr(ModelStack, "step", spy)
    Fleet(batch_norm_net(), [Client(3), Client(8), Client(5)]).together(plain())

    assert shapes == [(2, 5), (1, 3), (1, 3)]


def test_no_client_trains_longer_than_its_samples_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes 17, 6 and 3 in batches of 5 are 4, 2 and 1 steps; the last has 2 samples alone."""
    shapes: list[tuple[int, ...]] = []
    step = ModelStack.step

    def spy(self: Any, who: Any, inputs: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        shapes.append(tuple(weights.shape))
        return step(self, who, inputs, labels, weights)

    monkeypatch.setattr(ModelStack, "step", spy)
    Fleet(SMALL["logistic"](), [Client(3), Client(17), Client(6)]).together(plain())

    assert shapes == [(3, 5), (2, 5), (1, 5), (1, 2)]


def test_how_the_stacks_are_cut_changes_nothing_but_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet(batch_norm_net(), [Client(size, 2) for size in (3, 17, 5, 11, 2)])
    whole = fleet.together(plain())
    monkeypatch.setitem(vmap_sgd.STACK_BYTE, "cpu", 1)

    assert_equal(fleet, fleet.together(plain()), whole)


def test_a_bad_model_of_one_client_does_not_touch_the_others() -> None:
    fleet = Fleet(SMALL["2nn"](), [Client(7, 2), Client(9, 1)])
    good = fleet.jobs()
    bad = fleet.jobs()
    bad[1].base[:] = np.nan

    def train(jobs: list[StackJob]) -> list[JobResult]:
        return train_together(fleet.module, jobs, fleet.inputs, fleet.labels, plain())

    mixed, healthy = train(bad), train(good)

    assert not np.isfinite(vector_of(mixed[1])).any()
    assert vector_of(mixed[0]).tobytes() == vector_of(healthy[0]).tobytes()


def test_bases_and_the_weights_of_the_module_are_never_changed() -> None:
    fleet = Fleet(SMALL["logistic"](), [Client(4), Client(3)])
    job = fleet.jobs()[0]
    job.base.flags.writeable = False
    base, own = job.base.tobytes(), flatten(fleet.module).tobytes()
    result = train_together(fleet.module, [job], fleet.inputs, fleet.labels, plain())[0]

    assert job.base.tobytes() == base != vector_of(result).tobytes()
    assert flatten(fleet.module).tobytes() == own


def test_nothing_to_train_is_nothing_computed() -> None:
    fleet = Fleet(SMALL["logistic"](), [Client(4)])

    assert train_together(fleet.module, [], fleet.inputs, fleet.labels, plain()) == []


# --- mixed precision ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_mixed_step_is_near_the_exact_one(name: str) -> None:
    """bfloat16 rounds to 2^-9; a few layers of it stay within 5 % of the update."""
    fleet = Fleet(SMALL[name](), [Client(20), Client(11, base=1)], dtype=torch.float32)
    exact, mixed = fleet.together(plain(20)), fleet.together(plain(20), "mixed")

    errors = fleet.errors(mixed, exact)
    assert 1e-5 < max(errors) <= 0.05
    for result, reference in zip(mixed, exact, strict=True):
        assert vector_of(result).dtype == np.float32
        assert result.loss == pytest.approx(reference.loss, rel=0.02)


def test_mixed_precision_learns() -> None:
    """Ten epochs on samples whose class shows: the weights, in float32, keep the small steps."""
    fleet = Fleet(SMALL["2nn"](), [Client(40, 10), Client(30, 10)], dtype=torch.float32)
    for label in range(NUM_CLASSES):
        fleet.inputs[fleet.labels == label] += 2 * label
    first = [
        local_sgd.evaluate(fleet.module, fleet.base(0), fleet.inputs[rows], fleet.labels[rows]).loss
        for rows in fleet.shares
    ]
    found = fleet.together(plain(5, learning_rate=0.1), "mixed")
    exact = fleet.together(plain(5, learning_rate=0.1), "float32")

    for before, result, plainly in zip(first, found, exact, strict=True):
        assert before is not None
        assert result.loss is not None
        assert result.loss < 0.8 * before
        assert result.loss == pytest.approx(plainly.loss, rel=0.02)
        assert np.isfinite(vector_of(result)).all()


# --- memory and stacks --------------------------------------------------------------------------


def test_the_footprint_is_what_the_backward_pass_needs() -> None:
    """A sample of 6 float32, 5 hidden units behind the ReLU, and 4 logits: their log-softmax."""
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))

    assert footprint(module, torch.zeros(3, 6)) == Footprint((35 + 24) * 4, (6 + 5 + 4) * 4)


def test_a_stack_is_bounded_by_its_weights_and_activations() -> None:
    """Weights and gradients of 100 byte each, 5 samples of 20 byte: 300 byte a client."""
    size = Footprint(weights_byte=100, sample_byte=20)
    lengths = [Length(n, 1) for n in (6, 20, 7, 6, 20, 6, 6)]

    assert stacks(size, lengths, plain(), 3 * 300) == [[1, 4, 2], [0, 3], [5, 6]]
    assert stacks(size, lengths, EVERY_TERM, 4 * 460)[0] == [1, 4, 2, 0]
    assert stacks(size, lengths, plain(), 1) == [[1], [4], [2], [0], [3], [5], [6]]
    assert stacks(size, [], plain(), 1) == []


# --- what cannot be vectorised ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.LSTM(3, 3)), "layer 0 (LSTM) is recurrent"),
        (nn.Sequential(nn.GRU(3, 3)), "layer 0 (GRU) is recurrent"),
        (nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.1)), "layer 1 (Dropout) draws random"),
        (nn.Sequential(nn.BatchNorm1d(3, momentum=None)), "count of batches"),
        (built(LstmSettings(embedding=2, hidden=3, layers=1), TEXT), "layer lstm (LSTM)"),
        (nn.Flatten(), "no weights"),
    ],
)
def test_a_network_that_cannot_be_stacked_is_refused_with_the_reason(
    module: nn.Module, reason: str
) -> None:
    assert reason in (fault(module) or "")
    job = stack_job(np.zeros(1, np.float32), np.arange(1), 1, rng.stream(5, "test"))
    with pytest.raises(ValueError, match="cannot be trained at once"):
        train_together(module, [job], torch.zeros(1, 3), torch.zeros(1, dtype=torch.int64), plain())


def test_networks_of_scenarios_can_be_stacked() -> None:
    models = [build() for build in SMALL.values()] + [built(*entry) for entry in PUBLISHED]

    assert [fault(module) for module in models] == [None] * len(models)
