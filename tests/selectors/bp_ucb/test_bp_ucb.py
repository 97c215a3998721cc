import numpy as np
import pytest

from fleetsim import cli
from fleetsim.contracts import FloatArray, IntArray, Outcome, Purpose, WorkKind
from fleetsim.scenario import load
from fleetsim.selectors.bandits.equations import client_index, rewarded
from fleetsim.selectors.bp_ucb.selector import BpUcbSettings
from fleetsim.selectors.tie_breaking import best
from fleetsim.simulate import run
from tests.selectors.rounds import met, outcome_of, probed, report_of

LINE_M = np.array([[0.0, 0.0], [100.0, 0.0], [250.0, 0.0], [900.0, 0.0]])
"""With one nearest neighbour each: 0 - 1, joined with 2, joined with 3."""
ONE_NEAREST = {"kind": "mutual-nearest", "num_nearest": 1}
SILENT_BELIEFS = {"potentials": "printed", "graph": ONE_NEAREST, "slot_rounds": 1, "mu": 0.0}
"""Every belief is 1/2: the clients' own opinions decide."""


def ready(*, places_m=LINE_M, num_clients=4, cohort=2, seed=7, **settings):
    more = {"cohort": cohort, "seed": seed, "position_m": places_m}
    return met(BpUcbSettings(**settings), (10,) * num_clients, **more)


def play(fleet, selector, round_, opinions=None, *, candidates=None, cut_off=(), late=()):
    """A round; returns the requests of its stages and the choice.

    `opinions` by client; a missing one was lost. `cut_off` do not finish the exchange, `late` do
    not deliver their training.
    """

    def answer(request, stage):
        is_opinion = request.work.kind is WorkKind.EVALUATE
        opinion = (opinions or {}).get(request.client)
        is_lost = opinion is None if is_opinion else request.client in cut_off
        outcome = Outcome.OFFLINE if is_lost else Outcome.DELIVERED
        report = report_of(request.client, outcome=outcome, purpose=Purpose.PROBE)
        return report._replace(accuracy=opinion if is_opinion else None)

    stages, view = probed(selector, fleet, answer, round_=round_, candidates=candidates)
    chosen = selector.select(view).tolist()
    done = [
        report_of(c, loss=1.0, outcome=Outcome.LATE if c in late else Outcome.DELIVERED)
        for c in chosen
    ]
    selector.observe(outcome_of(round_, done))
    return stages, chosen


def opinions(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def test_random_clients_train_in_the_first_slot_and_no_client_is_asked_until_it_is_over():
    fleet, selector = ready(slot_rounds=2)
    stages, first = play(fleet, selector, 1)

    assert stages == []
    assert len(first) == 2
    assert play(fleet, selector, 2) == ([], first)
    assert len(play(fleet, selector, 3, opinions(0.1, 0.2, 0.3, 0.4))[0]) == 2
    firsts = set()
    for seed in range(12):
        fleet, selector = ready(seed=seed)
        firsts.add(tuple(play(fleet, selector, 1)[1]))
    assert len(firsts) > 4


def test_opinions_stay_with_the_clients_and_messages_are_charged_to_them():
    """The graph is a line, 1 2 2 1 neighbours. Printed potentials do not change the uniform
    messages, so one exchange: 2 scalars to each neighbour, and 4 indices: 8 * 6 byte each."""
    fleet, selector = ready(**SILENT_BELIEFS)
    play(fleet, selector, 1)
    (evaluating, talking), _ = play(fleet, selector, 2, opinions(0.2, 0.9, 0.5, 0.7))

    assert [request.client for request in evaluating] == [0, 1, 2, 3]
    for request in evaluating:
        assert (request.work.kind, request.needs_model) == (WorkKind.EVALUATE, True)
        assert request.upload_byte == 0
    for request in talking:
        assert (request.work.kind, request.needs_model) == (WorkKind.NONE, False)
    assert [request.upload_byte for request in talking] == [48, 96, 96, 48]
    assert [request.download_byte for request in talking] == [48, 96, 96, 48]


def test_the_best_by_their_own_mean_opinions_train():
    """First opinions .2 .9 .5 .7: 1 and 3. Of their model 1 thinks .3 and 3 thinks .1: means
    (.9 + .3) / 2 = .6 and (.7 + .1) / 2 = .4; 2 keeps its .5, whatever it thinks now."""
    fleet, selector = ready(**SILENT_BELIEFS)
    play(fleet, selector, 1)

    assert play(fleet, selector, 2, opinions(0.2, 0.9, 0.5, 0.7))[1] == [1, 3]
    assert play(fleet, selector, 3, opinions(1.0, 0.3, 1.0, 0.1))[1] == [1, 2]
    state = selector.state()
    assert state["means"].tolist() == pytest.approx([0.2, 0.6, 0.5, 0.4])
    assert state["plays"].tolist() == [1, 2, 1, 2]


def test_a_slot_counts_for_who_delivered_in_it():
    fleet, selector = ready(**SILENT_BELIEFS)
    play(fleet, selector, 1)
    play(fleet, selector, 2, opinions(0.2, 0.9, 0.5, 0.7), late=[1])
    play(fleet, selector, 3, opinions(0.0, 0.0, 0.0, 0.5))

    assert selector.state()["plays"].tolist() == [1, 1, 1, 2]
    assert selector.state()["means"].tolist() == pytest.approx([0.2, 0.9, 0.5, 0.6])


def test_satisfied_neighbours_speak_for_a_client():
    """0 and 2 think the same; 0 stands beside 1, who is content, and 2 beside 3, who is not, so
    that 0 goes before 2."""
    places_m = np.array([[0.0, 0.0], [100.0, 0.0], [5000.0, 0.0], [5100.0, 0.0]])
    fleet, selector = ready(places_m=places_m, graph=ONE_NEAREST, slot_rounds=1, mu=0.0)
    play(fleet, selector, 1)
    assert play(fleet, selector, 2, opinions(0.5, 0.9, 0.5, 0.1))[1] == [1, 0]

    # The other way round: client 0 beside the unsatisfied one, 2 beside the content one.
    fleet, selector = ready(places_m=places_m, graph=ONE_NEAREST, slot_rounds=1, mu=0.0)
    play(fleet, selector, 1)
    assert play(fleet, selector, 2, opinions(0.5, 0.1, 0.5, 0.9))[1] == [3, 2]


def test_who_has_no_opinion_or_does_not_finish_the_exchange_comes_last():
    fleet, selector = ready(cohort=3, **SILENT_BELIEFS)
    play(fleet, selector, 1)
    # 1 is cut off and 3 silent: 2 and 0 agreed, then 3 (never heard of: infinite index).
    (evaluating, talking), chosen = play(fleet, selector, 2, {0: 0.2, 1: 0.9, 2: 0.5}, cut_off=[1])

    assert len(evaluating) == 4
    assert [request.client for request in talking] == [0, 1, 2]
    assert chosen == [2, 0, 3]


def test_a_newcomer_begins_with_its_first_opinion():
    fleet, selector = ready(**SILENT_BELIEFS)
    play(fleet, selector, 1, candidates=[0, 1, 2])
    play(fleet, selector, 2, opinions(0.2, 0.4, 0.5), candidates=[0, 1, 2])
    (evaluating, _), chosen = play(fleet, selector, 3, opinions(0.2, 0.4, 0.5, 0.9))

    assert len(evaluating) == 4
    assert chosen[0] == 3
    assert selector.state()["plays"][3] == 1


def test_without_places_in_the_world_the_seed_draws_them():
    graphs = set()
    three = {"kind": "mutual-nearest", "num_nearest": 3}
    for seed in (1, 1, 2, 3):
        fleet, selector = ready(
            places_m=None, num_clients=12, seed=seed, **SILENT_BELIEFS | {"graph": three}
        )
        play(fleet, selector, 1)
        (_, talking), _ = play(fleet, selector, 2, dict.fromkeys(range(12), 0.5))
        graphs.add(tuple(request.upload_byte for request in talking))

    assert len(graphs) == 3


def test_the_graph_of_all_clients_can_be_had():
    _, selector = ready(graph={"kind": "radius", "radius_m": 150.0})
    graph = selector.graph()

    # 0 - 1 - 2 are near enough; 3 is joined by its shortest edge, of 650 m.
    assert list(graph.edges(data="distance_m")) == [(0, 1, 100.0), (1, 2, 150.0), (2, 3, 650.0)]
    assert graph.nodes[2]["position_m"] == (250.0, 0.0)


@pytest.mark.parametrize(
    ("graph", "num_neighbours"),
    [
        # 0, 100, 250 and 900 m on a line; two nearest: 0 and 1 name 2, 2 names them; 3 names 1, 2.
        ({"kind": "mutual-nearest", "num_nearest": 2}, [2, 2, 3, 1]),
        ({"kind": "nearest", "num_nearest": 2}, [2, 3, 3, 2]),
        ({"kind": "radius", "radius_m": 200.0}, [1, 2, 2, 1]),
        ({"kind": "complete"}, [3, 3, 3, 3]),
    ],
)
def test_messages_go_along_the_edges_of_the_graph(graph, num_neighbours):
    """8 byte, to each neighbour: 2 scalars in the one exchange, and 4 indices."""
    fleet, selector = ready(**SILENT_BELIEFS | {"graph": graph})
    play(fleet, selector, 1)
    (_, talking), _ = play(fleet, selector, 2, opinions(0.2, 0.9, 0.5, 0.7))

    assert [request.upload_byte for request in talking] == [48 * num for num in num_neighbours]


def test_a_graph_is_made_anew_when_others_are_there():
    """Without 1, who stood between them, 0 and 2 are neighbours: a line of three again."""
    fleet, selector = ready(**SILENT_BELIEFS)
    play(fleet, selector, 1)
    sent = []
    for round_, there in ((2, [0, 1, 2, 3]), (3, [0, 2, 3]), (4, [0, 1, 2, 3])):
        known = dict.fromkeys(there, 0.5)
        (_, talking), _ = play(fleet, selector, round_, known, candidates=there)
        sent.append([request.upload_byte for request in talking])

    assert sent == [[48, 96, 96, 48], [40, 80, 40], [48, 96, 96, 48]]


FAR_M = np.array([[0.0, 0.0], [300.0, 400.0], [30.0, 0.0]])
"""At most 500 m apart."""


def test_the_bound_of_theorem_2_by_hand():
    """C d^beta = 1e-3 x 5^3.7 = .3857; tanh .3677, twice that .7354. A fourth client anywhere
    between makes 1.1031."""
    settings = BpUcbSettings()
    among = np.vstack([FAR_M, [[10.0, 10.0]]])
    message = settings.warning(among, num_clients=4, seed=1)

    assert settings.warning(FAR_M, num_clients=3, seed=1) is None
    assert message is not None
    assert "(N - 1) tanh(C d_max^beta) = 1.1 is not below 1" in message
    assert "max_exchanges = 200" in message
    assert "damping" in message


def test_the_bound_follows_the_settings():
    # In kilometres .001 x .5^3.7 x 2 is nothing; as printed nothing is passed on.
    assert BpUcbSettings(distance_unit_m=10.0).warning(FAR_M, num_clients=3, seed=1)
    assert not BpUcbSettings(distance_unit_m=1000.0).warning(FAR_M, num_clients=3, seed=1)
    assert BpUcbSettings(distance_decay=1.0).warning(FAR_M, num_clients=3, seed=1)
    assert not BpUcbSettings(potentials="printed", distance_decay=1.0).warning(
        FAR_M, num_clients=3, seed=1
    )


def test_the_command_line_warns_once_and_a_run_goes_on(tmp_path, monkeypatch, capsys):
    changes = ["server.selector={kind: bp-ucb}", "stop.rounds=1", "fleet.size=8", "fleet.usage={}"]
    changes += ["server.cohort=2", "task.local.epochs=1", "fleet.devices={pixel-6: 1.0}"]
    words = [word for change in changes for word in ("--set", change)]
    monkeypatch.setattr("sys.argv", ["fleetsim", "validate", "quickstart", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    lines = capsys.readouterr().err.splitlines()
    done = run(load("quickstart", changes), out=tmp_path / "run", workers=1)

    assert not end.value.code
    assert [line for line in lines if "theorem 2" in line] == [lines[0]]
    assert lines[0].startswith("warning: server.selector: (N - 1) tanh(C d_max^beta) = 6.93 is not")
    assert done.manifest.warnings == (lines[0].removeprefix("warning: "),)


def started(*opinions: float) -> tuple[FloatArray, IntArray]:
    """Means and plays after slot 1, whose model all clients have an opinion of."""
    return np.array(opinions), np.ones(len(opinions), dtype=np.int64)


def test_two_slots_by_hand():
    # N = 4, K = 2, mu = .5. Opinions after slot 1: .6, .5, .4, .7; beliefs .5, .9, .1, .5.
    # Slot 2: sqrt(ln 2) = .832555, half of it is .416277; b/4 = .125, .225, .025, .125;
    # indices 1.141277, 1.141277, .841277, 1.241277: 3, and 0 before 1 by the key.
    # Their opinions of the new model are .8 and .3: means (.6+.8)/2 = .7 and (.7+.3)/2 = .5.
    # Slot 3: ln 3 = 1.098612, .5 sqrt(1.098612/2) = .370576 for 0 and 3, .524074 for the others;
    # indices 1.195576, 1.249074, .949074, .995576: 1 and 0.
    means, plays = started(0.6, 0.5, 0.4, 0.7)
    beliefs, keys = np.array([0.5, 0.9, 0.1, 0.5]), np.arange(4.0)
    second = client_index(means, plays, beliefs, 2, 0.5)
    chosen = best(second.round(9), 2, keys)
    means, plays = rewarded(means, plays, chosen, np.array([0.3, 0.8]))
    third = client_index(means, plays, beliefs, 3, 0.5)

    assert second == pytest.approx([1.141277, 1.141277, 0.841277, 1.241277], abs=1e-6)
    assert chosen.tolist() == [3, 0]
    assert means == pytest.approx([0.7, 0.5, 0.4, 0.5])
    assert plays.tolist() == [2, 1, 1, 2]
    assert third == pytest.approx([1.195576, 1.249074, 0.949074, 0.995576], abs=1e-6)
