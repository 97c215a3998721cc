"""FedMarl's probes, choices, rewards and refusals, with agents of known values."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Cohort, Evaluation, Outcome, Purpose, Report
from fleetsim.errors import FaultsError, ScenarioError
from fleetsim.selectors.fedmarl.agents import Agents, first_network
from fleetsim.selectors.fedmarl.observations import NO_STATES, Transition
from fleetsim.selectors.fedmarl.settings import FedMarlSettings
from fleetsim.selectors.learned_weights import ANY_CLIENTS, WeightFile
from tests.selectors.references.networks import FedMarl
from tests.selectors.references.referee import Refereed
from tests.selectors.references.stage import Stage
from tests.selectors.rounds import met, outcome_of, report_of, view_of

KNOWN = Evaluation(0.5, 1.0)
LOW_LOSSES_GO = {
    "hidden/weight": np.array([[-1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]], dtype=np.float32),
    "hidden/bias": np.zeros(2, dtype=np.float32),
    "output/weight": np.array([[0, 0], [1, -1]], dtype=np.float32),
    "output/bias": np.zeros(2, dtype=np.float32),
}
"""Q(continue) - Q(stop) is the logarithm of the median loss over the client's."""


def written(folder: Path, network: dict[str, Any], *, kind: str = "fedmarl") -> str:
    path = folder / "agents.safetensors"
    path.write_bytes(WeightFile(kind, {ANY_CLIENTS: network}).encoded())
    return str(path)


@pytest.fixture
def frozen(tmp_path) -> Any:
    """Settings of frozen agents that prefer small losses, or are biased by a number."""

    def settings(bias: float = 0.0, **more: Any) -> FedMarlSettings:
        network = LOW_LOSSES_GO | {"output/bias": np.array([0.0, bias], dtype=np.float32)}
        weights = written(tmp_path, network)
        return FedMarlSettings(weights=weights, learning=False, hidden=2, **more)

    return settings


def probe_of(client: int, loss: float | None, *, duration_s: float = 10.0, **more: Any) -> Report:
    return report_of(client, loss=loss, duration_s=duration_s, purpose=Purpose.PROBE, **more)


def chosen(answer: Cohort) -> tuple[list[int], list[bool]]:
    assert answer.continues is not None
    return answer.clients.tolist(), answer.continues.tolist()


LOSSES = {0: 4.0, 1: 1.0, 2: 0.5, 3: 2.0, 4: 1.5}
"""The median is 1.5: clients 4, 1 and 2 are not above it."""


def test_of_a_client_that_is_asked_again_the_last_answer_counts(frozen):
    fleet, selector = met(frozen(candidates=5), (10,) * 3)
    again = [probe_of(client, 1.0 + client) for client in (0, 1, 2)]
    reports = [probe_of(2, 0.1), probe_of(0, 0.1), *again]

    answer = selector.select(view_of(fleet, wanted=3, reports=reports))
    assert chosen(answer) == ([0, 1], [True, True])


def test_without_a_finite_loss_the_first_of_the_draw_train_and_who_delivered_continues(frozen):
    fleet, selector = met(frozen(), (10,) * 9)
    drawn = [request.client for request in selector.probe(view_of(fleet))]
    reports = [
        probe_of(drawn[0], math.nan),
        *(probe_of(client, None, outcome=Outcome.OFFLINE) for client in drawn[1:]),
    ]

    answer = selector.select(view_of(fleet, reports=reports))
    assert chosen(answer) == (drawn[:2], [True, False])
    others = [client for client in range(9) if client not in drawn]
    clients, continues = chosen(selector.select(view_of(fleet, reports=reports, candidates=others)))
    assert len(clients) == 2
    assert set(clients) <= set(others)
    assert continues == [False, False]


def test_the_reward_of_a_round_by_hand_becomes_a_transition_with_the_next_states():
    settings = FedMarlSettings(
        horizon_rounds=10, accuracy_weight=1.0, latency_weight=2.0, traffic_weight=3.0
    )
    fleet, selector = met(
        settings, (10,) * 4, epochs=5, payload_byte=1000, validation=Evaluation(0.2, 2.0)
    )
    for round_ in (1, 2):
        asked = [request.client for request in selector.probe(view_of(fleet, round_=round_))]
        probes = [probe_of(client, 1.0 + client, duration_s=4.0 + client) for client in asked]
        answer = selector.select(view_of(fleet, round_=round_, reports=probes))
        if round_ == 1:
            trained = [report_of(client, loss=0.5) for client in answer.clients.tolist()]
            # The last client to finish does so after 10 s, wherever they go.
            trained[0] = trained[0]._replace(upload_s=3.0)
            selector.observe(_with_accuracy(outcome_of(1, trained), 0.6))

    (transition,) = selector._agents.replay
    num = transition.continues.sum()
    # Probes of 4 to 7 s, then 10 s: 17 of 5 * 7 s. Each upload is half of the cohort's two.
    gain = 10 * math.tanh(0.175 * 0.6) - 10 * math.tanh(0.175 * 0.2)
    expected = gain - (2.0 * 17 / 35 + 3.0 * num / 2) / 10
    assert transition.reward == pytest.approx(expected)
    assert transition.next_states.shape == (4, 6)
    # The second round knows who uploaded in the first, the only one so far.
    assert transition.next_states[:, 3].tolist() == transition.continues.tolist()
    assert transition.next_wanted == 2


def _with_accuracy(outcome, accuracy):
    return replace(outcome, validation=Evaluation(accuracy, 1.0))


@pytest.mark.parametrize(
    ("planned", "accuracy", "num_kept"), [(1, 0.6, 1), (None, 0.6, 0), (1, None, 0)]
)
def test_the_last_planned_round_with_an_accuracy_ends_an_episode(planned, accuracy, num_kept):
    fleet, selector = met(
        FedMarlSettings(), (10,) * 4, planned_rounds=planned, payload_byte=9, validation=KNOWN
    )
    asked = [request.client for request in selector.probe(view_of(fleet))]
    answer = selector.select(view_of(fleet, reports=[probe_of(client, 1.0) for client in asked]))
    trained = [report_of(client, loss=0.5) for client in answer.clients.tolist()]
    selector.observe(_with_accuracy(outcome_of(1, trained), accuracy))

    kept = list(selector._agents.replay)
    assert [each.next_states.shape for each in kept] == [(0, 6)] * num_kept


def test_explorers_throw_a_coin():
    always = FedMarlSettings(exploration=1.0, exploration_end=1.0, candidates=40)
    shares = []
    fleet, selector = met(always, (10,) * 40, validation=KNOWN, cohort=40)
    for round_ in range(1, 41):
        reports = [probe_of(client, 1.0 + client) for client in range(40)]
        shares.append(selector.select(view_of(fleet, round_=round_, reports=reports)).clients.size)

    # 1,600 coins: their mean is within four standard deviations of a half.
    assert np.mean(shares) / 40 == pytest.approx(0.5, abs=4 * 0.5 / 40)
    assert len(set(shares)) > 5


LESSONS = FedMarlSettings(
    discount=0.9,
    learning_rate=0.01,
    batch_size=2,
    steps_per_round=3,
    sync_every_rounds=2,
    replay_capacity=5,
)


def transitions(num: int) -> list[Transition]:
    draw = rng.stream(1, "tests/transitions")
    return [
        Transition(
            draw.normal(size=(2 + number % 3, 6)).astype(np.float32),
            draw.random(2 + number % 3) < 0.5,
            float(draw.normal()),
            NO_STATES if number % 4 == 3 else draw.normal(size=(3, 6)).astype(np.float32),
            2,
        )
        for number in range(num)
    ]


def taught(num: int) -> Agents:
    agents = Agents(first_network(7, 8), LESSONS)
    for number, transition in enumerate(transitions(num)):
        agents.replay.append(transition)
        agents.learn(7, number)
    return agents


def test_agents_that_take_up_what_others_learned_go_on_alike():
    straight, resumed = taught(9), Agents(first_network(1, 8), LESSONS)
    resumed.restore(taught(6).state())
    for number, transition in list(enumerate(transitions(9)))[6:]:
        resumed.replay.append(transition)
        resumed.learn(7, number)

    states = straight.state()
    assert states.keys() == resumed.state().keys()
    for name, array in resumed.state().items():
        np.testing.assert_array_equal(array, states[name], err_msg=name)
    # The fifth to ninth are kept. The first batch came with the second transition: eight rounds.
    assert states["replay/sizes"].tolist() == [3, 4, 2, 3, 4]
    assert states["counts"].tolist() == [24, 8, 0]
    assert not np.array_equal(states["target/output/weight"], np.zeros((2, 8)))


def test_the_target_network_is_a_copy_of_every_second_round():
    after_two, after_three = taught(3).state(), taught(4).state()

    for name in first_network(7, 8):
        np.testing.assert_array_equal(after_two[f"target/{name}"], after_two[f"network/{name}"])
        np.testing.assert_array_equal(after_three[f"target/{name}"], after_two[f"target/{name}"])
    assert (after_three["network/output/bias"] != after_three["target/output/bias"]).any()


def test_a_training_that_counts_in_steps_is_refused(frozen):
    with pytest.raises(ScenarioError, match=r"set task\.local\.epochs instead of task\.local\.ste"):
        met(frozen(), (10, 10), epochs=0, steps=4)


@pytest.mark.parametrize(
    ("network", "hidden", "message"),
    [
        (LOW_LOSSES_GO, 64, "the weights have 2 hidden units, not 64; set hidden"),
        ({}, 2, "no finite weights of agents with 6 inputs and 2 actions"),
        (LOW_LOSSES_GO | {"hidden/bias": np.array([1.0, np.nan])}, 2, "hidden/bias is not finite"),
        (LOW_LOSSES_GO | {"hidden/weight": np.ones((2, 5))}, 2, "no finite weights"),
        (LOW_LOSSES_GO | {"more": np.ones(2)}, 2, "no finite weights"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, network, hidden, message):
    weights = written(tmp_path, network or {"other": np.ones(1)})
    with pytest.raises(FaultsError, match=message):
        met(FedMarlSettings(weights=weights, learning=False, hidden=hidden), (10, 10))


def test_the_policy_is_what_a_weight_file_holds(tmp_path, frozen):
    _, learner = met(FedMarlSettings(hidden=2), (10, 10), validation=KNOWN)
    _, other = met(frozen(), (10, 10))
    learner.take_up(other.learned())
    weights = written(tmp_path, learner.policy())
    _, again = met(FedMarlSettings(weights=weights, learning=False, hidden=2), (10, 10))

    for name, array in again.policy().items():
        np.testing.assert_array_equal(array, LOW_LOSSES_GO[name])


@pytest.mark.parametrize("changes", [{}, {"candidates": 11}, {"candidates": 5}])
@pytest.mark.parametrize("bias", [-1.0, 0.0, 1.0])
def test_every_choice_of_frozen_agents_is_that_of_the_reference(tmp_path, changes, bias):
    draw = rng.stream(3, "tests/weights")
    network = {
        name: draw.normal(size=array.shape).astype(np.float32)
        for name, array in first_network(0, 4).items()
    }
    network["output/bias"] = np.array([0.0, bias], dtype=np.float32)
    settings = FedMarlSettings(
        weights=written(tmp_path, network), learning=False, hidden=4, ties="lowest_id", **changes
    )
    for seed in (0, 1):
        referee = Refereed(settings.build(), FedMarl(settings, network))
        Stage(seed).play(referee, 60)

        assert (referee.num_choices, referee.mismatches) == (60, [])


def test_the_value_of_the_chosen_actions_is_reported(frozen):
    # Agents value stop at 0, and continue at the logarithm of 1.5 over the loss: 2 and 1 continue.
    fleet, selector = met(frozen(candidates=5), (10,) * 5)
    reports = [probe_of(client, loss) for client, loss in LOSSES.items()]
    answer = selector.select(view_of(fleet, wanted=2, reports=reports))
    selector.observe(outcome_of(1, [report_of(client) for client in answer.clients.tolist()]))

    assert selector.diagnostics() == {"expected": pytest.approx(math.log(3.0) + math.log(1.5))}


def test_reward_loss_and_exploration_are_reported_while_agents_learn():
    # that of the only transition, the first round's reward (the next values are 0 as well).
    settings = FedMarlSettings(
        candidates=5, batch_size=1, steps_per_round=1, exploration_decay_rounds=4
    )
    fleet, selector = met(settings, (10,) * 5, validation=KNOWN)
    diagnostics = []
    for round_, accuracy in ((1, 0.6), (2, 0.7)):
        reports = [probe_of(client, loss) for client, loss in LOSSES.items()]
        answer = selector.select(view_of(fleet, round_=round_, reports=reports))
        outcome = outcome_of(round_, [report_of(client) for client in answer.clients.tolist()])
        selector.observe(replace(outcome, validation=Evaluation(accuracy, 1.0)))
        diagnostics.append(selector.diagnostics())
        assert diagnostics[-1]["reward"] == selector.state()["last_reward"]

    assert diagnostics[0].keys() == {"expected", "reward", "exploration"}
    assert diagnostics[1]["loss"] == pytest.approx(diagnostics[0]["reward"] ** 2, rel=1e-5)
    assert [each["expected"] for each in diagnostics] == [0.0, 0.0]
    assert diagnostics[0]["exploration"] == 1.0
    assert diagnostics[1]["exploration"] == pytest.approx(1.0 - 0.95 / 4)
