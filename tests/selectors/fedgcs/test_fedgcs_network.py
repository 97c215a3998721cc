"""Networks, ascent and beam search against the same in plain Python."""

import numpy as np
import pytest
import torch

from fleetsim.selectors.fedgcs.network import take_over
from fleetsim.selectors.fedgcs.proposals import (
    decode,
    estimates_of,
    propose,
)
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from tests.selectors.fedgcs.networks import tiny
from tests.selectors.references.fedgcs import Net

SEQUENCES = [[0, 3, 5], [4], [2, 1, 0, 5, 3]]
ALL = np.ones(6, dtype=np.bool_)
both_starts = pytest.mark.parametrize("start", ["last", "pooled"])


def arrays_of(sequences):
    return [np.array(sequence) for sequence in sequences]


def encoded(network, sequences=SEQUENCES):
    return network.encode(network.tokens(arrays_of(sequences)))


def dice():
    return np.random.Generator(np.random.Philox(5))


@both_starts
def test_representations_and_estimates_are_those_of_the_equations(start):
    network = tiny(start=start)
    plain = Net(network.arrays())
    states = encoded(network)
    estimates = network.estimate(states).tolist()

    for row, sequence in enumerate(SEQUENCES):
        expected = plain.encode(sequence)
        result = states.states[row, : len(sequence)].tolist()
        assert np.array(result) == pytest.approx(np.array(expected), abs=1e-5)
        assert estimates[row] == pytest.approx(plain.estimate(expected), abs=1e-5)


@both_starts
def test_the_joint_loss_of_a_batch_is_that_of_the_equations(start):
    network = tiny(start=start)
    plain = Net(network.arrays())
    tokens, targets = network.tokens(arrays_of(SEQUENCES)), [0.3, -0.2, 0.9]
    with torch.no_grad():
        joint = network.joint_losses(tokens, torch.tensor(targets), alpha=0.8)
        means = network.joint_losses(tokens, torch.zeros(3), 1.0, "mean").tolist()

    expected = plain.joint_loss(SEQUENCES, targets, alpha=0.8)
    assert joint.mean().item() == pytest.approx(expected, rel=1e-5)
    # The end of a sequence is a token too.
    per_token = [plain.sequence_loss(tokens) / (len(tokens) + 1) for tokens in SEQUENCES]
    assert means == pytest.approx(per_token, rel=1e-5)


@both_starts
@pytest.mark.parametrize("seed", range(8))
def test_a_wide_beam_finds_the_most_likely_of_all_sets_of_six_clients(start, seed):
    """Sequences of 1 to 4 of 6 clients: 6 + 30 + 120 + 360 = 516."""
    network = tiny(start=start, seed=seed)
    plain = Net(network.arrays())
    wide = FedGCSSettings(beam_width=1000)
    for row, result in enumerate(decode(network, encoded(network), ALL, 4, wide)):
        everything = plain.exhaustive(plain.encode(SEQUENCES[row]), range(6), 1, 4)

        assert len(everything) == 516
        assert sum(np.exp(score) for score, _ in everything) == pytest.approx(1.0)
        assert result.tolist() == max(everything)[1]


@both_starts
@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("length", ["adaptive", "fixed"])
def test_a_narrow_beam_finds_what_it_finds_in_plain_python(start, width, length):
    settings = FedGCSSettings(beam_width=width, length=length)
    least = 4 if length == "fixed" else 1
    for seed in range(6):
        network = tiny(start=start, seed=seed)
        plain = Net(network.arrays())
        result = decode(network, encoded(network), ALL, 4, settings)
        for sequence, tokens in zip(SEQUENCES, result, strict=True):
            assert tokens.tolist() == plain.beam(plain.encode(sequence), range(6), least, 4, width)


def test_the_paper_decodes_the_representation_of_the_largest_estimate():
    network = tiny()
    plain = Net(network.arrays())
    settings = FedGCSSettings(step_size=0.5, steps=3)
    result = propose(network, arrays_of(SEQUENCES), ALL, 4, settings, dice())
    orders = dice()
    finals = [plain.encode(orders.permutation(np.array(s)).tolist()) for s in SEQUENCES]
    for _ in range(3):
        finals = [plain.ascended(states, 0.5) for states in finals]
    states = max(finals, key=plain.estimate)

    assert result.sets[0].tolist() == plain.beam(states, range(6), 1, 4, 5)
    assert result.estimates[0] == pytest.approx(plain.estimate(states), abs=1e-5)
    assert result.curve.shape == (4, 3)


def test_generated_sets_are_ranked_by_their_own_estimates():
    network = tiny()
    settings = FedGCSSettings(step_size=1.0, steps=4, choice="generated")
    result = propose(network, arrays_of(SEQUENCES), ALL, 4, settings, dice())

    assert len({frozenset(tokens.tolist()) for tokens in result.sets}) == len(result.sets) > 1
    assert (np.diff(result.estimates) <= 0.0).all()


def test_the_estimate_of_a_set_is_a_mean_over_orders():
    network = tiny()
    plain = Net(network.arrays())
    one = [np.array([4])]
    set_ = [np.array([0, 5])]
    ways = [plain.estimate(plain.encode(order)) for order in ([0, 5], [5, 0])]

    expected = plain.estimate(plain.encode([4]))
    assert estimates_of(network, one, dice())[0] == pytest.approx(expected, abs=1e-5)
    assert min(ways) <= estimates_of(network, set_, dice())[0] <= max(ways)
    assert min(ways) < max(ways)


def test_initial_weights_follow_from_their_seed_alone():
    before = torch.random.get_rng_state()
    one, same, other = tiny(seed=1).arrays(), tiny(seed=1).arrays(), tiny(seed=2).arrays()

    assert torch.equal(before, torch.random.get_rng_state())
    for name, array in one.items():
        np.testing.assert_array_equal(array, same[name])
        assert name == "is_pooled" or not np.array_equal(array, other[name])


def test_clients_keep_their_weights_when_others_become_known():
    """Clients 3 and 8 are tokens 0 and 1 at first, and 1 and 3 later; the end token stays last."""
    old, new = tiny(2, seed=1), tiny(4, seed=2)
    fresh = new.arrays()
    take_over(new, np.array([1, 3, 5, 8]), old, np.array([3, 8]))
    had, has = old.arrays(), new.arrays()

    for name in ("embedding.weight", "output.weight", "output.bias"):
        np.testing.assert_array_equal(has[name][[1, 3, 4]], had[name])
        np.testing.assert_array_equal(has[name][[0, 2]], fresh[name][[0, 2]])
    np.testing.assert_array_equal(has["decoder.weight_hh_l0"], had["decoder.weight_hh_l0"])
    # With the first two clients alone, the estimates are the same.
    first = old.estimate(old.encode(old.tokens(arrays_of([[0, 1]]))))
    later = new.estimate(new.encode(new.tokens(arrays_of([[1, 3]]))))
    assert first.item() == later.item()
    # Clients that left the records are forgotten.
    fewer = tiny(2, seed=3)
    take_over(fewer, np.array([1, 8]), new, np.array([1, 3, 5, 8]))
    np.testing.assert_array_equal(
        fewer.arrays()["embedding.weight"], has["embedding.weight"][[0, 3, 4]]
    )
