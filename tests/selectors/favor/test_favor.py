"""Favor on four clients: set-up, state, choice, learning, and what outlasts a run."""

import dataclasses
import math

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Evaluation, Outcome, Purpose
from fleetsim.errors import ScenarioError
from fleetsim.selectors.favor.compression import Compression
from fleetsim.selectors.favor.selector import memory_byte
from fleetsim.selectors.favor.settings import FavorSettings
from fleetsim.selectors.learned_weights import WeightFile
from tests.selectors.rounds import MODEL, met, outcome_of, report_of, view_of

SMALL = {"components": 3, "hidden": 8, "batch_size": 2}
FIRST = {0: [2.0, 0.0, 0.0], 1: [-2.0, 0.0, 0.0], 2: [0.0, 1.0, 0.0], 3: [0.0, -1.0, 0.0]}
"""First models of the clients. With the global one, of zeros, the mean is 0, and the axes are those
of the parameters, with variances 8/5, 2/5 and 0: coordinates are divided by sqrt(8/5)."""
SCALE = math.sqrt(8.0 / 5.0)


def ready(*, is_validated=True, num_clients=4, cohort=2, seed=7, clients_hash=None, **settings):
    validation = Evaluation(0.1, 2.0) if is_validated else None
    more = {"validation": validation, "cohort": cohort, "seed": seed, "clients_hash": clients_hash}
    return met(FavorSettings(**(SMALL | settings)), (10,) * num_clients, **more)


def delivered(client, model=None, *, purpose=Purpose.PROBE):
    vector = np.array(FIRST[client] if model is None else model, dtype=np.float32)
    return report_of(client, purpose=purpose)._replace(vector=vector)


def chosen(fleet, selector, round_=1, *, answers=FIRST, candidates=None, wanted=2):
    """The choice of a round in which the asked clients of `answers` answer."""
    view = view_of(fleet, round_=round_, wanted=wanted, candidates=candidates)
    asked = [request.client for request in selector.probe(view)]
    reports = [delivered(client) for client in asked if client in answers]
    return selector.select(dataclasses.replace(view, reports=tuple(reports))).tolist()


def observe(selector, round_, reports, *, accuracy=0.5, model=MODEL):
    outcome = dataclasses.replace(outcome_of(round_, reports), parameters=model)
    selector.observe(dataclasses.replace(outcome, validation=Evaluation(accuracy, 1.0)))


def learn(fleet, selector, round_, accuracy=0.5):
    """Play a round in which every chosen client delivers a new model."""
    reports = [delivered(client, [round_, 1.0, 0.0]) for client in chosen(fleet, selector, round_)]
    observe(selector, round_, reports, accuracy=accuracy)


def rows(selector):
    return selector.state()["compression/rows"]


def test_models_that_are_not_finite_are_none():
    fleet, selector = ready()
    view = view_of(fleet)
    selector.probe(view)
    broken = [delivered(0, [math.nan, 0.0, 0.0]), delivered(1, [math.inf, 0.0, 0.0])]
    selector.select(dataclasses.replace(view, reports=tuple(broken)))
    assert rows(selector).tolist() == [[0.0] * 3] * 5

    fleet, selector = ready()
    chosen(fleet, selector)
    before = rows(selector).tolist()
    observe(selector, 1, [broken[0]], model=np.full(3, np.nan, dtype=np.float32))
    assert rows(selector).tolist() == before


def test_of_many_first_models_a_thousand_are_fitted(monkeypatch):
    monkeypatch.setattr("fleetsim.selectors.favor.compression.MOST_MODELS", 2)
    compression = Compression(MODEL, 4, 3, scaling="none", seed=1)
    models = {client: np.array(model, dtype=np.float32) for client, model in FIRST.items()}
    compression.take_in(models, MODEL)

    # Three points have two axes; all four clients have a place.
    assert (np.abs(compression.state()["compression/axes"]).sum(axis=1) > 0.0).sum() == 2
    assert np.isfinite(compression.reference).all()


def values_of(selector):
    """Q of all clients in the present state, from the arrays of the policy, in numpy."""
    policy = selector.policy()
    state = rows(selector).ravel()
    hidden = np.maximum(policy["hidden.weight"] @ state + policy["hidden.bias"], 0.0)
    return policy["output.weight"] @ hidden + policy["output.bias"]


def test_exploration_takes_others_and_ends():
    fleet, selector = ready(exploration=0.5, exploration_end=0.5)
    seen = [tuple(chosen(fleet, selector, round_)) for round_ in range(1, 60)]
    best = tuple(np.argsort(-values_of(selector))[:2].tolist())

    # A place is the best with probability 1/2, or by chance; without learning in between.
    assert 0.2 < np.mean([pair == best for pair in seen]) < 0.5
    assert {client for pair in seen for client in pair} == {0, 1, 2, 3}

    fleet, selector = ready(exploration=0.0, exploration_end=0.0)
    assert {tuple(chosen(fleet, selector, round_)) for round_ in range(1, 9)} == {best}


def test_without_any_model_clients_are_drawn_at_random():
    fleet, selector = ready(learning=False)
    seen = {tuple(chosen(fleet, selector, round_, answers=[])) for round_ in range(1, 60)}

    assert len(seen) == 12


def test_a_round_stores_a_transition_of_each_chosen_client():
    fleet, selector = ready(target_accuracy=1.0)
    chosen(fleet, selector)
    before = rows(selector)
    late = report_of(1, outcome=Outcome.LATE)
    observe(selector, 1, [delivered(3, [1.0, 1.0, 0.0]), late])
    state = selector.state()

    assert state["replay/actions"].tolist() == [3, 1]
    assert state["replay/rewards"].tolist() == [1.0 / 8.0 - 1.0] * 2
    assert state["replay/is_last"].tolist() == [False, False]
    first, second = state["replay/rows"][state["replay/states"]]
    assert first.tolist() == before.tolist()
    assert second.tolist() == rows(selector).tolist()
    assert int(state["num_steps"]) == 1


def test_the_paper_s_training_takes_one_client_a_round():
    fleet, selector = ready(action="client", num_clients=4, cohort=3)
    assert len(chosen(fleet, selector, wanted=3)) == 1

    fleet, selector = ready(action="client", learning=False, cohort=3)
    assert len(chosen(fleet, selector, wanted=3)) == 3


def test_an_episode_ends_at_the_target_accuracy_and_the_policy_goes_on():
    fleet, selector = ready(target_accuracy=0.5, exploration=1.0, exploration_end=1.0)
    for round_, accuracy in enumerate([0.3, 0.5, 0.9], start=1):
        learn(fleet, selector, round_, accuracy)
    state = selector.state()

    assert state["replay/is_last"].tolist() == [False, False, True, True]
    assert state["replay/rewards"][2:].tolist() == [0.0, 0.0]
    # Without exploration.
    assert chosen(fleet, selector, 4) == np.argsort(-values_of(selector))[:2].tolist()


def test_a_round_without_an_accuracy_teaches_nothing():
    fleet, selector = ready()
    chosen(fleet, selector)
    observe(selector, 1, [delivered(0, [1.0, 1.0, 0.0])], accuracy=math.nan)
    assert selector.state()["replay/actions"].size == 0
    chosen(fleet, selector, 2)
    observe(selector, 2, [delivered(0, [1.0, 2.0, 0.0])])

    # The transition begins with the state after the first round.
    state = selector.state()
    begun = state["replay/rows"][state["replay/states"][state["replay/state_of"][0]]]
    assert begun[1] == pytest.approx(np.array([1.0, 1.0, 0.0]) / SCALE, abs=1e-6)


def is_copied(state):
    key = "hidden.weight"
    return bool((state[f"network/target/{key}"] == state[f"network/online/{key}"]).all())


@pytest.mark.parametrize(("sync_in", "updates"), [("rounds", {2, 4}), ("episodes", set())])
def test_the_target_network_is_copied_every_so_many_rounds(sync_in, updates):
    fleet, selector = ready(sync_in=sync_in, sync_every=2)
    copied_after = set()
    for round_ in range(1, 6):
        learn(fleet, selector, round_)
        if is_copied(selector.state()):
            copied_after.add(round_)

    assert copied_after == updates


def test_the_target_network_is_copied_every_so_many_episodes():
    learned, are_copied = None, []
    for episode in range(5):
        fleet, selector = ready(sync_in="episodes", sync_every=2, seed=episode)
        if learned is not None:
            selector.take_up(learned)
            are_copied.append(is_copied(selector.learned()))
        learn(fleet, selector, 1)
        learned = selector.learned()

    assert are_copied == [False, True, False, True]


def test_two_episodes_of_one_seed_explore_differently():
    learned, seen = None, []
    for _ in range(2):
        fleet, selector = ready(exploration=1.0, exploration_end=1.0, batch_size=1_000)
        if learned is not None:
            selector.take_up(learned)
        seen.append([chosen(fleet, selector, round_) for round_ in range(1, 9)])
        learned = selector.learned()

    assert seen[0] != seen[1]


def trained(**settings):
    fleet, selector = ready(**settings)
    for round_ in range(1, 6):
        learn(fleet, selector, round_)
    return selector


def test_another_run_goes_on_with_what_was_learned():
    before = trained()
    fleet, after = ready(seed=8)
    after.take_up(before.learned())
    learned, again = before.learned(), after.learned()

    assert (int(again.pop("num_episodes")), int(learned.pop("num_episodes"))) == (1, 0)
    assert {name: array.tolist() for name, array in again.items()} == {
        name: array.tolist() for name, array in learned.items()
    }
    # But its clients are asked again, and its transitions begin with its own state.
    chosen(fleet, after)
    observe(after, 1, [delivered(0, [3.0, 3.0, 0.0])])
    state = after.state()
    assert state["replay/actions"].size == learned["replay/actions"].size + 1
    begun = state["replay/rows"][state["replay/states"][state["replay/state_of"][-1]]]
    assert begun == pytest.approx(learned["reference"], abs=1e-5)


def filed_policy(agent, folder) -> str:
    path = folder / "favor.safetensors"
    path.write_bytes(WeightFile("favor", {"ab": agent.policy()}).encoded())
    return str(path)


def test_a_policy_in_a_file_chooses_like_the_agent_itself(tmp_path):
    agent = trained(clients_hash="ab")
    path = filed_policy(agent, tmp_path)
    fleet, frozen = ready(learning=False, seed=9)
    frozen.take_up(agent.learned())
    _, filed = ready(learning=False, seed=9, weights=path, clients_hash="ab")

    assert chosen(fleet, filed, wanted=4) == chosen(fleet, frozen, wanted=4)
    assert filed.policy().keys() == frozen.policy().keys()
    np.testing.assert_array_equal(values_of(filed), values_of(frozen))
    # Learning may begin with it, too.
    state, policy = ready(weights=path, clients_hash="ab")[1].state(), agent.policy()
    for layer in ("hidden.weight", "output.bias"):
        assert (state[f"network/online/{layer}"] == policy[layer]).all()
        assert (state[f"network/target/{layer}"] == policy[layer]).all()


@pytest.mark.parametrize("change", [{"components": 2}, {"hidden": 9}, {"num_clients": 5}])
def test_a_file_of_another_shape_is_refused(change, tmp_path):
    path = filed_policy(trained(), tmp_path)
    with pytest.raises(ScenarioError, match="4 clients, with components = 3 and hidden = 8"):
        ready(weights=path, **change)


def test_a_run_with_permuted_parameters_has_the_same_state_in_the_coordinates_of_training():
    """Networks whose hidden units change places are the same networks with other parameters.

    Their axes change with them; coordinates do not, up to the sign of each and the order of equal
    variances, which the turn removes.
    """
    draw = rng.stream(1, "tests/favor permuted")
    models = {client: draw.normal(size=20).astype(np.float32) for client in range(6)}
    start = draw.normal(size=20).astype(np.float32)
    permuted = draw.permutation(20)
    one = Compression(start, 6, 4, scaling="none", seed=1)
    one.take_in(models, start)
    other = Compression(-start[permuted], 6, 4, scaling="none", seed=2)
    other.reference = one.reference
    # Mirrored too, so that without the turn all signs differ.
    other.take_in({k: -model[permuted] for k, model in models.items()}, -start[permuted])

    np.testing.assert_allclose(other.rows, one.rows, atol=1e-5)
    later = draw.normal(size=20).astype(np.float32)
    one.take_in({3: later}, start)
    other.take_in({3: -later[permuted]}, -start[permuted])
    np.testing.assert_allclose(other.rows, one.rows, atol=1e-5)


def test_a_network_that_takes_too_much_memory_is_refused_with_the_number():
    """10,001 x 100 inputs and 512 units are 2.05 GB for one network, of which learning needs 4."""
    with pytest.raises(ScenarioError, match=r"needs 7\.9 GiB for 10,000 clients with 100 comp"):
        ready(num_clients=10_000, components=100, hidden=512)

    ready(num_clients=10_000, components=100, hidden=512, learning=False)
    ready(num_clients=10_000, components=20, hidden=64)


def test_fewer_stored_transitions_than_a_batch_are_refused():
    with pytest.raises(ScenarioError, match="5 transitions are fewer than batch_size = 6"):
        ready(replay_capacity=5, batch_size=6)


@pytest.mark.parametrize("learning", [True, False])
def test_the_declared_bytes_of_a_client_are_those_of_the_network(learning):
    """Of a thousand more clients: rows, transitions and batches are a few percent besides."""
    settings = FavorSettings(learning=learning)
    declared = settings.demands[f"learning: {str(learning).lower()}"].client_byte
    more = memory_byte(settings, 2_000, 10, 0) - memory_byte(settings, 1_000, 10, 0)

    assert 1.0 < more / 1_000 / declared < 1.05


def test_the_mean_value_of_the_cohort_and_its_target_are_reported():
    fleet, selector = ready(discount=0.5, batch_size=64, exploration=0.3, exploration_end=0.3)
    clients = chosen(fleet, selector)
    before = values_of(selector)
    observe(selector, 1, [delivered(c, [1.0, 1.0, 0.0]) for c in clients], accuracy=0.5)
    after = values_of(selector)
    diagnostics = selector.diagnostics()

    # Without a step the target network is still a copy, so that its largest value is the next one.
    gained = 64.0 ** (0.5 - 0.9) - 1.0
    assert diagnostics.keys() == {"expected", "realised", "reward", "exploration"}
    assert diagnostics["expected"] == pytest.approx(before[clients].mean(), abs=1e-6)
    assert diagnostics["realised"] == pytest.approx(gained + 0.5 * after.max(), abs=1e-6)
    assert diagnostics["reward"] == pytest.approx(gained)
    assert diagnostics["exploration"] == pytest.approx(0.3)


def test_the_target_of_the_last_round_of_an_episode_is_its_reward_and_losses_are_reported():
    fleet, selector = ready(batch_size=2)
    learn(fleet, selector, 1, 0.95)
    diagnostics = selector.diagnostics()
    assert diagnostics["realised"] == diagnostics["reward"] == pytest.approx(64.0**0.05 - 1.0)
    assert diagnostics["loss"] > 0.0

    # The rest of the run uses the policy.
    learn(fleet, selector, 2, 0.96)
    assert selector.diagnostics().keys() == {"expected"}
