from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import nn

from fleetsim import rng
from fleetsim.contracts import JobResult
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.conv.channels_last import ChannelsLastKernel
from fleetsim.kernels.cpu.gemm import Widths
from fleetsim.kernels.stacked import stacked_sgd
from fleetsim.kernels.stacked.stacked_sgd import StackedKernel
from fleetsim.kernels.vmap import vmap_sgd
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.data.dataset import ByteImages
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.model_kind import Hinge
from fleetsim.training.worker_pool import Pool
from tests.learning.side_by_side import (
    EVERY_TERM,
    LAST_BATCHES,
    SMALL,
    Client,
    Fleet,
    assert_equal,
    chain,
    clients_of_all_sizes,
    local,
    local_settings,
    same,
    vector_of,
)

HINGES: list[Hinge | None] = [None, "crammer-singer", "weston-watkins", "one-vs-rest"]
"""Losses; None: cross-entropy."""
SHAPES: list[Widths] = [(6, 4), (6, 5, 4), (6, 8, 5, 3)]
Stacks = tuple[type[Kernel], Callable[[], nn.Module]]
PULLED = local(5, weight_decay=0.05, mu=0.5)
"""Weight decay and the proximal term."""


def chains(widths: Widths, clients: list[Client], hinge: Hinge | None = None, **how: Any) -> Fleet:
    shape = widths[:1]
    return Fleet(chain(widths, hinge), clients, shape=shape, num_classes=widths[-1], **how)


def assert_as_serial(fleet: Fleet, kind: type[Kernel], chosen: LocalSettings) -> None:
    assert_equal(fleet, fleet.train(kind, chosen), fleet.train(Kernel, chosen))


@pytest.mark.slow
@given(st.sampled_from(SHAPES), clients_of_all_sizes, local_settings, st.sampled_from(HINGES))
@example(SHAPES[2], [Client(7, 2, 0), Client(23, 1, 1), Client(1, 3, 2)], local(3), None)
@example(SHAPES[0], [Client(7, 2, 0), Client(23, 1, 1)], local(3), "crammer-singer")
@example(SHAPES[0], [Client(7, 2, 0), Client(23, 1, 1)], local(3), "weston-watkins")
@example(SHAPES[0], [Client(7, 2, 0), Client(23, 1, 1)], local(3), "one-vs-rest")
@example(SHAPES[2], [Client(7, 2, 0, 4), Client(23, 3, 1, 9), Client(1, 3, 2, 1)], local(), None)
@example(SHAPES[2], [Client(7, 2, 0, 3, True), Client(23, 3, 1, 9, True)], EVERY_TERM, None)
@settings(max_examples=40)
def test_chains_are_trained_as_one_client_after_the_other_in_float64(
    widths, clients, chosen, hinge
):
    assert_as_serial(chains(widths, clients, hinge), StackedKernel, chosen)


@pytest.fixture
def _always_dual(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dual form wherever there is one, for networks far too small for it to pay."""
    monkeypatch.setattr(
        stacked_sgd,
        "dual_form_is_faster",
        lambda widths, _lengths, chosen: len(widths) > 2 and not chosen.optimizer.momentum,
    )


@pytest.mark.slow
@given(
    st.sampled_from([(6, 5, 4), (6, 8, 5, 3), (30, 3, 2)]),
    clients_of_all_sizes,
    local_settings,
    st.sampled_from(HINGES),
)
@example(SHAPES[2], [Client(7, 2, 0), Client(23, 1, 1), Client(1, 3, 2)], local(3), None)
@example(SHAPES[2], [Client(7, 2, 0, 4), Client(23, 3, 1, 9), Client(1, 3, 2, 1)], local(), None)
@example(SHAPES[1], [Client(7, 3, 0), Client(23, 3, 1, None, True)], local(5), "one-vs-rest")
@example(SHAPES[1], [Client(5, 2, 0), Client(23, 3, 0)], PULLED, None)
@pytest.mark.usefixtures("_always_dual")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_dual_form_trains_as_one_client_after_the_other_in_float64(
    widths, clients, chosen, hinge
):
    assert_as_serial(chains(widths, clients, hinge), StackedKernel, chosen)


@pytest.mark.slow
@given(st.sampled_from(sorted(SMALL)), clients_of_all_sizes, local_settings)
@example("batch norm", [Client(7, 2, 0), Client(23, 1, 1), Client(2, 3, 2)], EVERY_TERM)
@example("batch norm", [Client(7, 2, 0, 2), Client(23, 3, 1, 9), Client(2, 3, 2)], EVERY_TERM)
@example("batch norm", [Client(7, 2, 0, 4, True), Client(23, 3, 1, 9, True)], EVERY_TERM)
@example("gpt", [Client(7, 2, 0), Client(23, 1, 1), Client(1, 3, 2)], EVERY_TERM)
@example("gpt", [Client(7, 2, 0), Client(23, 1, 1, None, True), Client(1, 3, 2)], EVERY_TERM)
@example("frozen", [Client(5, 2, 0), Client(1, 1, 1)], EVERY_TERM)
@settings(max_examples=25)
def test_any_network_is_trained_as_one_client_after_the_other_in_float64(name, clients, chosen):
    assert_as_serial(Fleet(SMALL[name](), clients), VectorisedKernel, chosen)


@pytest.mark.usefixtures("_always_dual", "whole_numbers")
@pytest.mark.parametrize("are_bytes", [False, True])
@pytest.mark.parametrize("chosen", [local(), PULLED], ids=["plain", "pulled"])
def test_many_steps_of_the_dual_form_in_float32_stay_near_float64(chosen, are_bytes):
    """Not farther than ten times serial training, which reads floats, is from itself in float64."""
    clients = [Client(40, 6, 0), Client(35, 6, 1)]
    pixels = rng.stream(5, "test/pixels").integers(0, 256, (75, 3, 4, 5), dtype=np.uint8)
    images = ByteImages(pixels, (0.5, 0.4, 0.6), (0.25, 0.2, 0.3))

    def trained(kind: type[Kernel], dtype: torch.dtype) -> list[JobResult]:
        fleet = Fleet(chain((60, 8, 3)), clients, shape=(3, 4, 5), dtype=dtype, num_classes=3)
        inputs = torch.from_numpy(np.asarray(images)).to(dtype).numpy()
        kept = images if are_bytes and kind is StackedKernel else inputs
        fleet.data = replace(fleet.data, train_inputs=kept)
        return fleet.train(kind, chosen)

    exact, loop = trained(Kernel, torch.float64), trained(Kernel, torch.float32)
    fleet = Fleet(chain((60, 8, 3)), clients, shape=(3, 4, 5), num_classes=3)

    results = trained(StackedKernel, torch.float32)
    for mine, near in zip(fleet.errors(results, exact), fleet.errors(loop, exact), strict=True):
        assert mine <= 10 * near <= 1e-4
    for result, reference in zip(results, exact, strict=True):
        assert result.loss == pytest.approx(reference.loss, rel=1e-5)


@pytest.fixture(params=["serial", "chain", "dual", "2nn", "batch norm"])
def stacks(request: pytest.FixtureRequest) -> Stacks:
    """Kernels that train many clients at once, and the serial one, with a small network."""
    if request.param == "dual":
        request.getfixturevalue("_always_dual")
    kinds: dict[str, type[Kernel]] = {"serial": Kernel, "images": ChannelsLastKernel}
    kinds |= {"chain": StackedKernel, "dual": StackedKernel}
    network = SMALL["batch norm" if request.param in ("batch norm", "images") else "2nn"]
    return kinds.get(request.param, VectorisedKernel), network


@pytest.mark.parametrize("last_batch", LAST_BATCHES)
@pytest.mark.parametrize("stacks", ["chain", "dual", "2nn", "batch norm", "images"], indirect=True)
def test_every_kernel_cuts_epochs_into_the_batches_of_the_serial_one(stacks, last_batch):
    """Batches of 5 of a sample, of fewer than 5, and of more that are no whole batches."""
    clients = [Client(size, 3, tells=True) for size in (1, 4, 6, 11, 14)]
    fleet = Fleet(stacks[1](), [*clients, Client(14, 3, most_steps=4)])
    chosen = local(5, 0.05, weight_decay=0.05, mu=0.5, last_batch=last_batch)

    assert_as_serial(fleet, stacks[0], chosen)


@given(clients=clients_of_all_sizes)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_telling_what_epochs_lost_changes_no_bit_of_the_rest(stacks, clients):
    kind, network = stacks
    silent = [replace(client, tells=False) for client in clients]
    results, plainly = (
        Fleet(network(), each, dtype=torch.float32).train(kind, local())
        for each in (clients, silent)
    )

    for result, reference in zip(results, plainly, strict=True):
        assert same(result._replace(epoch_losses=None), reference)


@pytest.mark.parametrize("form", ["plain", "dual"])
@given(st.sampled_from(SHAPES), clients_of_all_sizes, st.sampled_from([0.0, 0.05]))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_step_of_chains_in_float32_differs_by_rounding_alone(
    request, form, widths, clients, weight_decay
):
    if form == "dual":
        request.getfixturevalue("_always_dual")
    once = [Client(client.size, 1, client.base) for client in clients]
    fleet = chains(widths, once, dtype=torch.float32)

    chosen = local(23, 1.0, weight_decay=weight_decay)
    results, expected = fleet.train(StackedKernel, chosen), fleet.train(Kernel, chosen)

    assert max(fleet.errors(results, expected)) <= 1e-5
    for result, reference in zip(results, expected, strict=True):
        assert vector_of(result).dtype == np.float32
        assert result.loss == pytest.approx(reference.loss, rel=1e-5)


def test_how_the_stacks_are_cut_changes_nothing_but_rounding(monkeypatch, stacks):
    kind, network = stacks
    fleet = Fleet(network(), [Client(size, 2) for size in (3, 17, 5, 11, 2)])
    whole = fleet.train(kind, local())
    monkeypatch.setattr(stacked_sgd, "STACK_BYTE", 1)
    monkeypatch.setitem(vmap_sgd.STACK_BYTE, "cpu", 1)

    assert len(fleet.kernel(kind, local()).chunks(fleet.jobs())) > 1
    assert_equal(fleet, fleet.train(kind, local()), whole)


def test_a_bad_model_of_one_client_does_not_touch_the_others(stacks: Stacks) -> None:
    kind, network = stacks
    fleet = Fleet(network(), [Client(7, 2), Client(9, 1)], dtype=torch.float32)
    one, other = fleet.jobs()
    bad = other._replace(base=np.full_like(other.base, np.nan))
    mixed = Pool(fleet.kernel(kind, local()), 1).compute([one, bad])
    healthy = fleet.train(kind, local())

    assert not np.isfinite(vector_of(mixed[1])).any()
    assert same(mixed[0], healthy[0])


def test_what_a_kernel_computed_before_does_not_show(stacks: Stacks) -> None:
    """Larger and smaller stacks, and one full of what is no number."""
    kind, network = stacks
    fleet = Fleet(network(), [Client(9, 2), Client(21, 2), Client(30, 2)], dtype=torch.float32)
    used = Pool(fleet.kernel(kind, local()), 1)
    jobs = fleet.jobs()
    used.compute([jobs[2]._replace(base=np.full_like(jobs[2].base, np.nan))])

    for job in (jobs[1], jobs[0], jobs[2]):
        (result,) = used.compute([job])
        (expected,) = Pool(fleet.kernel(kind, local()), 1).compute([job])
        assert same(result, expected)
