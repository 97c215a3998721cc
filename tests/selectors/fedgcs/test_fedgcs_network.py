"""Networks, ascent and beam search against the same in plain Python."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.fedgcs_recovery import NEAR, Search
from fleetsim.selectors.fedgcs import fitting
from fleetsim.selectors.fedgcs.fitting import fit, network_of
from fleetsim.selectors.fedgcs.network import take_over
from fleetsim.selectors.fedgcs.proposals import decode, estimates_of, propose
from fleetsim.selectors.fedgcs.records import NO_RECORDS, SelectionRecords
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from tests.selectors.fedgcs.networks import additive_records, tiny
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
    assert first.item() == new.estimate(new.encode(new.tokens(arrays_of([[1, 3]])))).item()
    # Clients that left the records are forgotten.
    fewer = tiny(2, seed=3)
    take_over(fewer, np.array([1, 8]), new, np.array([1, 3, 5, 8]))
    np.testing.assert_array_equal(
        fewer.arrays()["embedding.weight"], has["embedding.weight"][[0, 3, 4]]
    )


QUICK: dict[str, Any] = {
    "embedding": 8,
    "hidden": 16,
    "evaluator": 20,
    "shuffles": 5,
    "learning_rate": 0.01,
}
SOME = additive_records(30, 9, 3)


def fitted(records=SOME, keys=None, **more):
    options: dict[str, Any] = {"num_clients": 9, "seed": 3, "epochs": 4} | more
    return fit(records, settings=FedGCSSettings(**QUICK | (keys or {})), **options)


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.fixture(scope="module")
def trained():
    """A fit to 200 records of 5 of 12 clients, and to the same with exchanged scores."""
    settings = FedGCSSettings(
        embedding=8,
        hidden=32,
        evaluator=40,
        shuffles=8,
        batch_size=256,
        learning_rate=0.005,
        held_out_fraction=0.2,
    )
    records = additive_records(200, 12, 5)
    progress = []
    result = fit(
        records,
        num_clients=12,
        settings=settings,
        seed=1,
        epochs=25,
        has_control=True,
        on_progress=lambda done, planned: progress.append((done, planned)),
    )
    return records, result, progress


@pytest.mark.slow
def test_estimates_rank_records_that_were_held_out(trained):
    _, result, _ = trained

    assert result.facts["held_out"] == 40.0
    assert result.facts["spearman"] > 0.8
    assert result.facts["kendall"] > 0.6


def test_with_exchanged_scores_there_is_nothing_to_rank(trained):
    """Of 40 independent pairs, Spearman's rho has the standard error 1 / sqrt(39) = 0.16, and
    Kendall's tau 0.11; three of them."""
    _, result, progress = trained

    assert abs(result.facts["control_spearman"]) < 0.48
    assert abs(result.facts["control_kendall"]) < 0.33
    # Of the epochs of both fits.
    assert progress == [*((done, 50) for done in range(1, 51)), (50, 50)]


def test_the_decoder_generates_the_encoded_sets(trained):
    records, result, _ = trained
    network, known = network_of(result.weights)
    tokens = [np.searchsorted(known, selection) for selection in records.selections[:20]]
    encoded = network.encode(network.tokens(tokens))
    decoded = decode(network, encoded, np.ones(known.size, dtype=np.bool_), 12, FedGCSSettings())
    right = [set(a.tolist()) == set(b.tolist()) for a, b in zip(decoded, tokens, strict=True)]

    assert sum(right) >= 15


def test_a_fit_follows_from_its_seed_whatever_the_number_of_threads():
    before = torch.get_num_threads()
    one = fitted()
    torch.set_num_threads(2)
    try:
        two = fitted()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)

    assert_same(one.weights, two.weights)
    assert not np.array_equal(
        one.weights["network/output.bias"], fitted(seed=4).weights["network/output.bias"]
    )
    assert not np.array_equal(
        one.weights["network/output.bias"], fitted(index=1).weights["network/output.bias"]
    )


@pytest.mark.slow
def test_long_batches_are_computed_in_parts(monkeypatch):
    """Parts of some sequences add up to the same gradient, but for the order of the sums."""
    whole = fitted()
    # Four tokens of three clients and an end, ten logits each: parts of five sequences.
    monkeypatch.setattr(fitting, "_MOST_LOGITS", 4 * 10 * 5)
    parts = fitted()

    for name, array in whole.weights.items():
        assert parts.weights[name] == pytest.approx(array, abs=2e-3), name


def test_a_fit_ends_when_held_out_records_do_not_improve():
    facts = fitted(keys={"learning_rate": 1.0, "patience": 3}, epochs=50).facts

    assert facts["epochs"] < 50
    assert facts["epochs"] == facts["best_epoch"] + 3


def test_without_held_out_records_all_epochs_are_taken():
    facts = fitted(keys={"held_out_fraction": 0.0}).facts

    assert facts["epochs"] == 4
    assert math.isnan(facts["held_out_loss"])
    assert math.isnan(facts["spearman"])


def test_a_fit_may_go_on_from_an_earlier_one():
    first = fitted(epochs=12)
    more = additive_records(10, 11, 3, seed=5)
    others = {"embedding": 3, "hidden": 3, "evaluator": 3}
    later = fitted(SOME + more, others, num_clients=11, before=first.weights)
    anew = fitted(SOME + more, num_clients=11)

    assert later.weights["known"].tolist() == list(range(11))
    assert later.weights["network/embedding.weight"].shape == (12, 8)
    assert later.facts["held_out_loss"] < anew.facts["held_out_loss"]


def test_equal_scores_have_no_rank_and_do_no_harm():
    flat = SelectionRecords.of(SOME.selections, *np.ones((3, len(SOME))))

    assert math.isnan(fitted(flat).facts["kendall"])


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (NO_RECORDS, "got 0, of clients"),
        (SOME.chosen(np.array([0])), "got 1, of clients"),
        (SOME + SelectionRecords.of([[9]], *np.ones((3, 1))), r"of clients \[0\] to \[9\]"),
    ],
)
def test_too_few_records_or_other_clients_are_refused(records, message):
    with pytest.raises(ValueError, match=message):
        fitted(records)


SEEDS = range(10)


@pytest.mark.slow
@pytest.mark.long
def test_proposals_come_within_two_percent_of_the_best_set_in_eight_of_ten_worlds():
    searches = [Search(seed) for seed in SEEDS]

    assert sum(search.random() >= NEAR for search in searches) <= 2
    assert sum(any(share >= NEAR for share in search.online()) for search in searches) >= 8
