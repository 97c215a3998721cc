"""Floating-point operations of training on one sample: by hand, and by torch."""

import pytest

from benchmarks.flop import training_flop
from benchmarks.own_models import NETWORKS, row
from benchmarks.peers.networks import Form
from fleetsim.contracts import SampleForm


def test_logistic_regression_needs_a_product_forward_and_one_for_the_weights():
    assert training_flop("logistic", Form((60,), 10), {}) == 2 * 2 * 60 * 10


def test_later_layers_need_a_third_product_for_their_inputs():
    first, second, third = 784 * 200, 200 * 200, 200 * 10

    assert training_flop("2nn", Form((1, 28, 28), 10), {}) == 2 * (
        2 * first + 3 * second + 3 * third
    )


def test_so_do_later_convolutions():
    # Outputs x weights of an output: 5 x 5 kernels on 28 x 28 and 14 x 14 pixels.
    conv1, conv2 = 28 * 28 * 32 * 25, 14 * 14 * 64 * 32 * 25
    dense = 64 * 7 * 7 * 512 + 512 * 10

    assert training_flop("fedgra-cnn", Form((1, 28, 28), 10), {}) == pytest.approx(
        2 * (2 * conv1 + 3 * conv2 + 3 * dense)
    )


def test_an_lstm_multiplies_inputs_and_states_at_every_position_of_every_layer():
    # Four gates of 6 units; the first layer has 3 inputs, the second 6; logits of 5 characters.
    gates = 4 * 6 * (3 + 6) + 4 * 6 * (6 + 6)
    sizes = {"embedding": 3, "hidden": 6, "layers": 2}

    # A whole third: the embedding is no product, so that every product has two gradients, but for
    # the first state of each layer, which is constant.
    flop = training_flop("lstm", Form((7,), 5, 5, is_sequence=True), sizes)
    assert flop == 2 * 3 * 7 * (gates + 6 * 5) - 2 * 2 * (4 * 6 * 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_row_has_a_proof_and_the_flop_of_torch(name: str) -> None:
    result = row(name, SampleForm((1, 24, 24), 4), batch_size=4, repeats=1)

    assert result["trainer"] != "serial" or result["reason"] == "none is faster for such a network"
    assert result["trainer"] == "serial" or result["reason"].startswith("equal to serial within ")
    assert result["flop"] == result["torch_flop"] > 0
    assert result["fast_s"] > 0.0
    assert result["serial_s"] > 0.0
