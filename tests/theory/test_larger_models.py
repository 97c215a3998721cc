"""Time and energy by size of the model: a larger one never takes less, and without jumps.

The tests cover networks from a few FLOP to billions, and all bundled devices.
"""

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fleetsim.contracts import ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.devices.compute import lay_out_computations, unloaded_s
from fleetsim.fleet.devices.profile import DeviceProfile, device_names, load_device
from fleetsim.learning.models.cost import model_cost

DEVICES = [load_device(name) for name in device_names()]
WORKS = (
    Work(WorkKind.TRAIN, epochs=2),
    Work(WorkKind.TRAIN, steps=7),
    Work(WorkKind.GRADIENT),
    Work(WorkKind.EVALUATE),
)
CLASSES = ("conv", "depthwise", "gemm", "rnn")


@cache
def dense(inputs: int, *widths: int) -> ModelCost:
    sizes = (inputs, *widths, 10)
    return model_cost(
        nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))), (inputs,)
    )


def spent(device: DeviceProfile, cost: ModelCost, work: Work) -> tuple[float, float]:
    """Return seconds and joules above idle of a client with 300 samples in batches of 32."""
    num, size = np.array([300]), Batching(32)
    work_s = unloaded_s(device.compute, cost, work, num_samples=num, batching=size)
    power_w = np.array([device.power.train_above_idle_w])
    done = lay_out_computations(
        np.zeros(1), work_s, power_w, lambda rows, t_s: (0.0 * t_s, t_s + np.inf)
    )
    return float(done.end_s[0]), float(done.energy_until(done.end_s)[0])


any_device = st.sampled_from(DEVICES)
any_work = st.sampled_from(WORKS)


COSTS = st.builds(
    ModelCost,
    st.dictionaries(st.sampled_from(CLASSES), st.floats(1.0, 1e11), min_size=1),
    num_parameters=st.integers(0, 10**9),
    payload_byte=st.just(4),
    num_layers=st.integers(0, 300),
)


@given(
    device=any_device,
    work=any_work,
    cost=COSTS,
    factors=st.tuples(st.floats(1.0, 100.0), st.floats(1.0, 100.0)),
    more_layers=st.integers(0, 9),
)
def test_more_flop_parameters_and_layers_never_take_less(device, work, cost, factors, more_layers):
    flop = {kind: factors[0] * count for kind, count in cost.forward_flop.items()}
    num_parameters = round(factors[1] * cost.num_parameters)
    larger = ModelCost(flop, num_parameters, 4, num_layers=cost.num_layers + more_layers)
    (small_s, small_j), (large_s, large_j) = (spent(device, one, work) for one in (cost, larger))

    assert large_s >= small_s * (1 - 1e-12)
    assert large_j >= small_j * (1 - 1e-12)


@pytest.mark.slow
@given(device=any_device, work=any_work, cost=COSTS)
def test_a_thousandth_more_flop_and_parameters_take_less_than_a_hundredth_more(device, work, cost):
    flop = {kind: 1.001 * count for kind, count in cost.forward_flop.items()}
    larger = ModelCost(flop, round(1.001 * cost.num_parameters), 4, num_layers=cost.num_layers)
    (before_s, before_j), (after_s, after_j) = (
        spent(device, model, work) for model in (cost, larger)
    )

    assert before_s <= after_s < 1.01 * before_s
    assert before_j <= after_j < 1.01 * before_j


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_no_width_around_five_million_flop_is_a_step(device: DeviceProfile) -> None:
    """784 inputs and a hidden layer of 1,200: a second one of 1,284 to 1,294 units."""
    seconds = [spent(device, dense(784, 1200, width), WORKS[0])[0] for width in range(1284, 1295)]
    steps = np.diff(seconds) / seconds[0]

    assert (steps > 0.0).all()
    assert steps.max() < 0.001
