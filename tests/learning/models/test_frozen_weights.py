import torch
from torch import nn

from fleetsim.learning.models.cost import cost_of
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.frozen_weights import FrozenWeights, frozen_sha256


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
    assert cost.num_parameters == 18
    assert cost.frozen_byte == 4 * (35 + 5 + 10)


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
