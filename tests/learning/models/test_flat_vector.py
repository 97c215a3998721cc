import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fleetsim.learning.models.flat_vector import flatten, layout, load_flat


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

    assert module.weight.tolist() == [[1, 2], [3, 4]]
    assert module.bias.tolist() == [5, 6]


@pytest.mark.slow
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=16, max_size=16))
def test_any_vector_comes_back_from_the_module_as_it_went_in(values: list[float]) -> None:
    module = with_batch_norm()
    vector = np.array(values, dtype=np.float32)
    load_flat(module, vector)

    np.testing.assert_array_equal(flatten(module), vector)


def test_a_flat_vector_is_a_copy_in_both_directions_and_may_be_read_only() -> None:
    module = nn.Linear(2, 1, bias=False)
    sent = np.array([1, 2], dtype=np.float32)
    sent.flags.writeable = False
    load_flat(module, sent)
    taken = flatten(module)
    with torch.no_grad():
        module.weight.add_(1)

    assert sent.tolist() == taken.tolist() == [1, 2]
