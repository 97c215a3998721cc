"""Three bandits on a network whose best set is known by construction, with real training.

Six clients, sets of two; ten classes c with 12 samples each at every client, whose input is a
multiple of the unit vector of its class. So the model learns each class on its own:

* clients 0 and 1 are i.i.d.: every sample has the label of its class. Of classes 7, 8 and 9 they
  have dim samples, a sixteenth of all others;
* client 1 + o (o = 1 ... 4) has noisy labels: 3 of 12 say the same, all other nine labels come
  once. Of classes 0 to 4 the 3 are right, of 5 to 9 they say what stands o places farther on in
  that ring.

From the initial model (weights within 1/60 of 0) one large step on all samples decides: the label
with the most of (samples x brightness) wins. With right = r, what clients think of the model of

    0 and 1     all classes r: they 1; the others (5 x 3 + 5 x 1) / 120 = 1/6
    0 and x     7, 8, 9 as x says (bright noise beats dim truth), the rest r: 0 and 1 .7; x
                (5 x 3 + 2 x 1 + 3 x 3) / 120 = 13/60; the others 1/6
    x and y     5 to 9 as x or y says: 0 and 1 .5; x and y together (10 x 3 + 5 x 3 + 5 x 1) / 120
                = 25/60, neither above (10 x 3) / 120 = 1/4; the others 1/6

and on average over all six, in 360ths: 160, 127, 105. The test set has the samples of all clients,
which have equal numbers, so the run's accuracy is that average.
"""

import itertools

import numpy as np
import pytest

from fleetsim import simulate
from fleetsim.record.measures.selection_measures import regret
from fleetsim.scenario import load

NUM_CLIENTS, NUM_CLASSES, NUM_INPUTS = 6, 10, 3600
BEST = {0, 1}
REWARDS = {2: 160 / 360, 1: 127 / 360, 0: 105 / 360}
"""By how many of the i.i.d. clients are in the set."""


def labels_of(client: int, cls: int) -> list[int]:
    if client in BEST:
        return [cls] * 12
    offset = client - 1
    favourite = cls if cls < 5 else 5 + (cls - 5 + offset) % 5
    return [favourite] * 2 + list(range(NUM_CLASSES))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A folder with the data set."""
    folder = tmp_path_factory.mktemp("network")
    inputs, labels, owners = [], [], []
    for client, cls in itertools.product(range(NUM_CLIENTS), range(NUM_CLASSES)):
        is_dim = client in BEST and cls >= 7
        row = np.zeros(NUM_INPUTS, dtype=np.float32)
        row[cls] = 1.0 if is_dim else 16.0
        noisy = labels_of(client, cls)
        inputs += [row] * len(noisy)
        labels += noisy
        owners += [client] * len(noisy)
    x, y = np.array(inputs), np.array(labels)
    np.savez(folder / "train.npz", inputs=x, labels=y, client=np.array(owners))
    np.savez(folder / "test.npz", inputs=x, labels=y)
    return folder


@pytest.fixture
def play(network, tmp_path):
    def go(selector: str, seed: int, *, slots: int):
        """Sets and rewards of all slots."""
        scenario = load(
            "quickstart",
            [
                f"task.dataset={{kind: folder, folder: {network}}}",
                *("task.partition={kind: natural}", "task.model={kind: logistic}"),
                *("task.local.epochs=1", "task.local.batch_size=120", "fleet.usage={}"),
                "task.local.optimizer={kind: sgd, learning_rate: 10.0}",
                *(f"fleet.size={NUM_CLIENTS}", f"stop={{rounds: {slots}}}"),
                f"server={{cohort: 2, selector: {selector}}}",
            ],
            seed=seed,
        )
        done = simulate.run(scenario, out=tmp_path / "run", workers=1)
        trained = done.tasks[done.tasks["purpose"] == "train"]
        sets = trained.groupby("round")["client"].agg(set).tolist()
        return sets, done.rounds["accuracy"].to_numpy()

    return go


def assert_rewards_are_by_construction(sets, rewards):
    expected = [REWARDS[len(BEST & members)] for members in sets]
    np.testing.assert_allclose(rewards, expected, atol=1e-6)


def slots_to_best(sets) -> int:
    """Slot, 1 for the first, from which on the best set is played to the end."""
    others = [slot for slot, members in enumerate(sets, start=1) if members != BEST]
    return max(others, default=0) + 1


@pytest.mark.slow
def test_the_conventional_bandit_finds_it_once_it_has_played_all_sets(play):
    """15 sets, each once; then the best is 33/360 ahead, and what is won by having been played less
    is at most .01 sqrt(ln 18) = .017. It has missed 8 times 33/360 and 6 times 55/360."""
    sets, rewards = play("{kind: ucb, mu: 0.01, slot_rounds: 1, model: reset}", 1, slots=18)
    missed = regret(rewards, REWARDS[2])

    assert_rewards_are_by_construction(sets, rewards)
    assert len({frozenset(members) for members in sets[:15]}) == 15
    assert slots_to_best(sets) <= 16
    assert missed[14] == pytest.approx((8 * 33 + 6 * 55) / 360, abs=1e-5)
    assert missed[-1] == pytest.approx(missed[14], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "are_grouped"), [(1, False), (2, True)])
def test_quick_init_finds_it_among_the_sets_of_promising_clients(seed, are_grouped, play):
    """Three groups. If 0 and 1 are in one, their set begins with the best estimate: slot 4. If not,
    each has a group of 127/360, and 6 sets begin with that, all others with less: a set that turns
    out to be worth no more is not played again before all six were, so slot 9 at the latest, after
    groups that missed 33 + 33 + 55 and sets that missed 4 times 33 and once 55."""
    selector = "{kind: quick-init-ucb, mu: 0.01, slot_rounds: 1, model: reset}"
    sets, rewards = play(selector, seed, slots=12)
    missed = regret(rewards, REWARDS[2])

    assert_rewards_are_by_construction(sets, rewards)
    assert set().union(*sets[:3]) == set(range(NUM_CLIENTS))
    assert (BEST in sets[:3]) == are_grouped
    assert slots_to_best(sets) <= (4 if are_grouped else 9)
    assert missed[-1] <= (121 + 4 * 33 + 55) / 360 + 1e-5
    assert missed[-1] < (8 * 33 + 6 * 55) / 360


@pytest.mark.parametrize(
    ("seed", "num_best_first", "graph"),
    [
        (1, 0, "{kind: complete}"),
        (2, 1, "{kind: mutual-nearest}"),
        (5, 2, "{kind: mutual-nearest}"),
    ],
)
def test_bp_ucb_finds_it_at_once(seed, num_best_first, graph, play):
    """Of the clients that train first, 0 and 1 have opinions of at least .5, others of at most .25.

    Beliefs differ by at most 1/6 and the bonus is equal, so that they stay ahead; later opinions
    give (.5 + 1) / 2 and more.
    """
    selector = f"{{kind: bp-ucb, slot_rounds: 1, model: reset, graph: {graph}}}"
    sets, rewards = play(selector, seed, slots=6)

    assert_rewards_are_by_construction(sets, rewards)
    assert len(BEST & sets[0]) == num_best_first
    assert slots_to_best(sets) <= 2
    assert regret(rewards, REWARDS[2])[-1] <= 55 / 360 + 1e-5
