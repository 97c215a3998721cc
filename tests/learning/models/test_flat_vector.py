import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fleetsim.learning.models.cost import cost_of
from fleetsim.learning.models.flat_vector import (
    FrozenWeights,
    flatten,
    frozen_sha256,
    layout,
    load_flat,
)


def with_batch_norm() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def test_layout_follows_the_state_dict_and_leaves_integer_buffers_out() -> None:
    slots = layout(with_batch_norm())

    assert [(slot.name, slot.start, slot.stop, slot.is_trained) for slot in slots] == [
        ("0.weight", 0, 6, True),
        ("0.bias", 6, 8, True),
        ("1.weight", 8, 10, True),
        ("1.bias", 10, 12, True),
        ("1.running_mean", 12, 14, False),
        ("1.running_var", 14, 16, False),
    ]


def test_matrices_lie_row_by_row_in_the_vector() -> None:
    module = nn.Linear(2, 2)
    load_flat(module, np.array([1, 2, 3, 4, 5, 6], dtype=np.float32))

    assert (module.weight.tolist(), module.bias.tolist()) == ([[1, 2], [3, 4]], [5, 6])


@pytest.mark.slow
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=16, max_size=16))
def test_any_vector_comes_back_from_the_module_as_it_went_in(values: list[float]) -> None:
    module = with_batch_norm()
    vector = np.array(values, dtype=np.float32)
    load_flat(module, vector)

    np.testing.assert_array_equal(flatten(module), vector)


@pytest.mark.parametrize("is_writeable", [True, False])
def test_a_flat_vector_is_a_copy_in_both_directions_and_may_be_read_only(
    is_writeable: bool,
) -> None:
    module = nn.Linear(2, 1, bias=False)
    sent = np.array([1, 2], dtype=np.float32)
    sent.flags.writeable = is_writeable
    load_flat(module, sent)
    taken = flatten(module)
    with torch.no_grad():
        module.weight.add_(1)

    assert sent.tolist() == taken.tolist() == [1, 2]


def network() -> nn.Sequential:
    """7 x 5 + 5 frozen weights, scale and shift of 5 frozen, 5 x 3 + 3 trained ones."""
    norm = nn.BatchNorm1d(5).requires_grad_(False)
    norm.num_batches_tracked = None
    return nn.Sequential(nn.Linear(7, 5).requires_grad_(False), norm, nn.Linear(5, 3))


def test_the_vector_and_the_bytes_are_those_of_trained_weights_and_buffers() -> None:
    net, cost = network(), cost_of(network(), {"gemm": 100.0}, {"gemm": 2})

    assert [(slot.name, slot.stop - slot.start, slot.is_trained) for slot in layout(net)] == [
        ("1.running_mean", 5, False),
        ("1.running_var", 5, False),
        ("2.weight", 15, True),
        ("2.bias", 3, True),
    ]
    assert cost.payload_byte == flatten(net).nbytes == 4 * (10 + 18)
    assert (cost.num_parameters, cost.frozen_byte) == (18, 4 * (35 + 5 + 10))


def test_tied_weights_travel_once_beside_frozen_ones() -> None:
    net = nn.Sequential(nn.Embedding(11, 4), nn.Linear(4, 4), nn.Linear(4, 11, bias=False))
    net[2].weight = net[0].weight
    net[1].requires_grad_(False)
    cost = cost_of(net, {}, {})

    assert [slot.name for slot in layout(net)] == ["0.weight"]
    assert (cost.payload_byte, cost.frozen_byte) == (4 * 44, 4 * 20)
    net[1].requires_grad_(True)
    net[0].requires_grad_(False)
    assert [slot.name for slot in layout(net)] == ["1.weight", "1.bias"]


def test_frozen_weights_are_named_by_their_content() -> None:
    net, other = network(), network()
    other.load_state_dict(net.state_dict())
    same = frozen_sha256(other)
    with torch.no_grad():
        other.get_parameter("2.bias").add_(1.0)
        assert frozen_sha256(other) == same == frozen_sha256(net)
        other.get_parameter("0.bias")[0] += 1.0

    assert frozen_sha256(other) != same
    assert frozen_sha256(nn.Linear(3, 2)) is None
    fault = FrozenWeights(net).fault(other)
    assert fault is not None
    assert fault.startswith("changes 0.bias in training")
