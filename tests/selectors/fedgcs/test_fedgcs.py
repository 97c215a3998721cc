"""FedGCS as a selector: what it records, when it fits, what it proposes, and what it remembers."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from fleetsim.contracts import Evaluation, Outcome
from fleetsim.errors import DataError, ScenarioError
from fleetsim.selectors.fedgcs.fitting import fit
from fleetsim.selectors.fedgcs.records import SelectionRecords
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from fleetsim.selectors.learned_weights import WeightFile, read_weights
from tests.selectors.fedgcs.networks import additive_records
from tests.selectors.references.fedgcs import FedGcs
from tests.selectors.references.referee import Refereed
from tests.selectors.references.stage import Stage
from tests.selectors.rounds import met, outcome_of, report_of, view_of

NUM = 9
SMALL: dict[str, Any] = {
    "embedding": 4,
    "hidden": 8,
    "evaluator": 10,
    "shuffles": 3,
    "refit_epochs": 3,
    "exploration_fraction": 0.0,
}


def ready(*, accuracy: float | None = 0.5, cohort: int = 3, **settings: Any):
    validation = None if accuracy is None else Evaluation(accuracy, 1.0)
    return met(FedGCSSettings(**SMALL | settings), [10] * NUM, cohort=cohort, validation=validation)


def finished(round_, clients, accuracy=0.6, seconds=30.0, outcome=Outcome.DELIVERED):
    """A round in which every client used 7 J and has losses of its number."""
    reports = [
        report_of(client, loss=float(client), duration_s=10.0 + client, outcome=outcome)._replace(
            energy_j=7.0 if outcome is Outcome.DELIVERED else None
        )
        for client in clients
    ]
    return dataclasses.replace(
        outcome_of(round_, reports), finished_at_s=seconds, validation=Evaluation(accuracy, 1.0)
    )


def play(fleet, selector, rounds, first=1, worth=None):
    """Play rounds; the accuracy is the mean worth of the selected, by default client / 10."""
    worth = np.arange(NUM) / 10.0 if worth is None else worth
    chosen = []
    for round_ in range(first, first + rounds):
        clients = selector.select(view_of(fleet, round_=round_))
        chosen.append(clients.tolist())
        selector.observe(finished(round_, clients.tolist(), float(worth[clients].mean())))
    return chosen


def records_of(selector) -> SelectionRecords:
    return SelectionRecords.restored(selector.state())


@pytest.mark.parametrize(("outcome", "joules"), [(Outcome.DELIVERED, 14.0), (Outcome.LATE, 0.0)])
@pytest.mark.parametrize(
    ("performance", "expected"), [("accuracy", [0.75, 0.5]), ("rise", [1.25, 0.75])]
)
def test_a_round_is_recorded_with_its_accuracy_or_rise_seconds_and_joules(
    outcome, joules, performance, expected
):
    fleet, selector = ready(performance=performance)
    for round_, accuracy in ((1, 0.75), (2, 0.5)):
        selector.select(view_of(fleet, round_=round_))
        selector.observe(finished(round_, [4, 2], accuracy, 30.0, outcome))
    records = records_of(selector)

    assert [selection.tolist() for selection in records.selections] == [[4, 2]] * 2
    assert records.performance.tolist() == expected
    assert (records.latency_s.tolist(), records.energy_j.tolist()) == ([30.0] * 2, [joules] * 2)


def test_rounds_that_say_nothing_are_not_recorded():
    fleet, selector = ready()
    selector.select(view_of(fleet))
    selector.observe(finished(1, []))
    selector.observe(finished(1, [0, 1, 2, 3]))  # more than requested
    selector.observe(dataclasses.replace(finished(1, [1]), validation=Evaluation(None, None)))
    selector.observe(finished(1, [1], accuracy=float("nan")))

    assert len(records_of(selector)) == 0


def test_the_first_rounds_are_random_and_the_latest_records_are_kept():
    fleet, selector = ready(max_records=4, warm_up_rounds=50)
    chosen = play(fleet, selector, 29)

    assert {client for clients in chosen for client in clients} == set(range(NUM))
    assert [s.tolist() for s in records_of(selector).selections] == chosen[25:]


@pytest.mark.parametrize(("exploration", "num_proposed"), [(0.0, 8), (1.0, 0)])
def test_fits_come_after_the_warm_up_and_proposals_unless_it_explores(exploration, num_proposed):
    fleet, selector = ready(warm_up_rounds=4, refit_rounds=3, exploration_fraction=exploration)
    fits, proposed = [], 0
    for round_ in range(1, 13):
        play(fleet, selector, 1, first=round_)
        fits.append(int(selector.state()["num_fits"]))
        proposed += selector.last_proposals is not None

    assert fits == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert proposed == num_proposed


def test_without_learning_nothing_is_recorded_or_drawn_for_exploration(tmp_path):
    weights = weights_at(tmp_path)
    fleet, selector = ready(learning=False, weights=weights, exploration_fraction=1.0)
    before = selector.policy()
    play(fleet, selector, 12)

    assert selector.last_proposals is not None
    assert not selector.needs_losses
    for name, array in selector.policy().items():
        np.testing.assert_array_equal(array, before[name])


def file_of(folder, weights, clients_hash="any") -> str:
    path = folder / "fedgcs.safetensors"
    path.write_bytes(WeightFile("fedgcs", {clients_hash: weights}).encoded())
    return str(path)


def weights_at(folder, *, clients_hash="any") -> str:
    """A file of small networks fitted to random sets of nine clients."""
    records, settings = additive_records(30, NUM, 3), FedGCSSettings(**SMALL)
    fitted = fit(records, num_clients=NUM, settings=settings, seed=1, epochs=6)
    return file_of(folder, fitted.weights, clients_hash)


def test_clients_that_no_record_names_are_chosen_at_random(tmp_path):
    few = SelectionRecords.of([[0, 1], [2, 3], [1, 2]], *np.ones((3, 3)))
    fitted = fit(few, num_clients=NUM, settings=FedGCSSettings(), seed=1, epochs=1)
    fleet, selector = ready(learning=False, weights=file_of(tmp_path, fitted.weights))

    assert sorted(selector.select(view_of(fleet, candidates=[5, 7])).tolist()) == [5, 7]
    assert set(selector.select(view_of(fleet, candidates=[2, 5, 7])).tolist()) == {2}
    assert selector.select(view_of(fleet, candidates=[])).size == 0


@pytest.mark.slow
def test_repeats_can_be_avoided():
    fleet, selector = ready(warm_up_rounds=5, repeats="avoided", choice="generated")
    play(fleet, selector, 5)
    for round_ in range(6, 20):
        seen = {frozenset(s.tolist()) for s in records_of(selector).selections}
        (chosen,) = play(fleet, selector, 1, first=round_)
        proposals = selector.last_proposals
        assert proposals is not None
        is_new = [frozenset(tokens.tolist()) not in seen for tokens in proposals.sets]
        assert frozenset(chosen) not in seen or not any(is_new)


def test_what_was_learned_goes_on_in_another_run():
    fleet, first = ready(warm_up_rounds=4, refit_rounds=3)
    play(fleet, first, 6)
    _, second = ready(warm_up_rounds=4, refit_rounds=3)
    second.take_up(first.learned())
    learned, again = first.learned(), second.learned()

    assert learned.keys() == again.keys()
    for name, array in learned.items():
        np.testing.assert_array_equal(array, again[name])
    play(fleet, second, 1)
    assert second.last_proposals is not None
    play(fleet, second, 2, first=2)
    assert len(records_of(second)) == 9
    assert int(second.state()["num_fits"]) == 2


def test_a_policy_is_a_weight_file_for_these_clients(tmp_path):
    fleet, first = ready(warm_up_rounds=4)
    play(fleet, first, 5)
    _, second = ready(learning=False, weights=file_of(tmp_path, first.policy()))
    view = view_of(fleet, round_=6)

    assert second.select(view).tolist() == first.select(view).tolist()
    assert FedGCSSettings.weights_are_for == "these clients"


def test_weights_of_other_clients_are_refused(tmp_path):
    path = weights_at(tmp_path, clients_hash="0" * 64)
    settings = FedGCSSettings(learning=False, weights=path)
    with pytest.raises(ScenarioError, match="was learned on other clients"):
        met(settings, [10] * NUM, clients_hash="1" * 64)
    with pytest.raises(ScenarioError, match=r"know a client 8, but fleet.size is 5"):
        met(settings, [10] * 5)
    with pytest.raises(DataError, match="weights"):
        ready(weights="no-such-file")
    with pytest.raises(ScenarioError, match="learning: fedgcs has nothing to choose by"):
        ready(learning=False)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"growth": "growing", "step_size": 5.0, "steps": 3},
        {"length": "fixed", "beam_width": 1},
        {"starts": 2, "steps": 0},
    ],
)
def test_every_choice_is_that_of_plain_python(changes, tmp_path):
    path = weights_at(tmp_path)
    weights = read_weights(path).weights["any"]
    settings = FedGCSSettings(learning=False, weights=path, step_size=2.0, steps=2)
    settings = settings.model_copy(update={"starts": 4} | changes)
    network = {name[8:]: array for name, array in weights.items() if name.startswith("network/")}
    records = SelectionRecords.restored(weights)
    reference = FedGcs(
        settings,
        network,
        weights["known"].tolist(),
        [selection.tolist() for selection in records.selections],
        records.performance.tolist(),  # all cost the same
    )
    referee = Refereed(settings.build(), reference)
    Stage(1).play(referee, 12)

    assert (referee.num_choices, referee.mismatches) == (12, [])
