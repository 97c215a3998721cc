"""Fits learn to rank selections and to generate them, and follow from their seed alone."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from fleetsim.selectors.fedgcs import fitting
from fleetsim.selectors.fedgcs.fitting import fit, network_of
from fleetsim.selectors.fedgcs.proposals import decode
from fleetsim.selectors.fedgcs.records import NO_RECORDS, SelectionRecords
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from tests.selectors.fedgcs.networks import additive_records

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
