import pytest

import fleetsim
from fleetsim.errors import ScenarioError
from fleetsim.selector_training.episodes import train_by_episodes
from fleetsim.selectors.learned_weights import ANY_CLIENTS, read_weights

SHORT = [
    *("fleet.size=12", "server.cohort=3", "stop.rounds=5"),
    *("evaluate.validation_fraction=0.1", "task.local.epochs=2"),
]
EAGER = {
    "favor": {"components": 4, "hidden": 8, "batch_size": 2},
    "fedmarl": {"batch_size": 2},
    "autofl": {},
}


def scenario_of(kind: str, *more: str):
    changes = [f"server.selector.{key}={value}" for key, value in EAGER[kind].items()]
    return fleetsim.load("quickstart", [f"server.selector.kind={kind}", *changes, *SHORT, *more])


def trained(kind: str, out, episodes: int, *, first_seed: int = 50, **more):
    return train_by_episodes(
        scenario_of(kind),
        episodes=episodes,
        first_seed=first_seed,
        out=out,
        command="train",
        workers=1,
        **more,
    )


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(
        one[key].dtype == other[key].dtype and one[key].tobytes() == other[key].tobytes()
        for key in one
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", EAGER)
def test_training_in_two_calls_is_training_in_one(kind, tmp_path):
    one = trained(kind, tmp_path / "one.safetensors", 2)
    first = trained(kind, tmp_path / "two.safetensors", 1).file
    two = trained(kind, tmp_path / "two.safetensors", 2)

    (clients,) = one.file.weights
    assert same(one.file.weights[clients], two.file.weights[clients])
    assert [episode.seed for episode in two.episodes] == [50, 51]
    assert [episode[:-1] for episode in one.episodes] == [episode[:-1] for episode in two.episodes]
    # The second episode goes on with what the first has learned.
    (anew,) = trained(kind, tmp_path / "anew.safetensors", 1, first_seed=51).file.weights.values()
    assert not same(anew, two.file.weights[clients])
    assert not same(first.weights[clients], two.file.weights[clients])


@pytest.mark.slow
def test_weights_of_certain_clients_are_used_for_these_alone(tmp_path):
    path = tmp_path / "favor.safetensors"
    trained("favor", path, 1)
    frozen = ["server.selector.learning=false", f"server.selector.weights={path}"]

    run = fleetsim.run(scenario_of("favor", *frozen), out=tmp_path / "run")

    record = run.manifest.selector_weights
    assert record is not None
    assert record.name == str(path)
    # Another seed of the run, the same clients.
    scenario_of("favor", *frozen, "seed=9", "fleet.seed=1")
    with pytest.raises(ScenarioError, match="learned on other clients"):
        scenario_of("favor", *frozen, "seed=9")
    with pytest.raises(ScenarioError, match="learned on other clients"):
        scenario_of("favor", *frozen, "task.partition.alpha=0.4")


@pytest.mark.slow
def test_weights_for_any_clients_are_learned_on_other_clients_in_every_episode(tmp_path):
    path = tmp_path / "fedmarl.safetensors"
    made = trained("fedmarl", path, 2)

    assert set(made.file.weights) == {ANY_CLIENTS}
    # Quickstart has usage of people who differ from seed to seed.
    one, two = made.episodes
    assert one.virtual_s != two.virtual_s
    frozen = ["server.selector.learning=false", f"server.selector.weights={path}"]
    scenario_of("fedmarl", *frozen, "seed=9", "fleet.size=20")


@pytest.mark.slow
def test_the_costs_of_the_episodes_are_on_record(tmp_path):
    path = tmp_path / "autofl.safetensors"
    made = trained("autofl", path, 2)

    (clients,) = made.file.weights
    facts = {
        key.partition("/")[2]: value
        for key, value in read_weights(str(path)).facts.items()
        if key.startswith(clients)
    }
    alone = fleetsim.run(
        scenario_of("autofl", "seed=50", "fleet.seed=1"), out=tmp_path / "run", workers=1
    )

    assert facts["episodes"] == "2"
    assert float(facts["training_energy_j"]) == sum(each.energy_j for each in made.episodes)
    # The first episode is a run with empty tables.
    assert made.episodes[0].energy_j == alone.rounds["energy_total_j"].iloc[-1]
    assert made.episodes[0].accuracy == alone.rounds["accuracy"].iloc[-1]


@pytest.mark.slow
def test_an_interrupted_episode_is_repeated(tmp_path):
    path = tmp_path / "one.safetensors"

    class StopError(Exception):
        pass

    def stop(number, progress):
        if number == 2 and progress.round == 3:
            raise StopError

    with pytest.raises(StopError):
        trained("autofl", path, 3, on_progress=stop)
    assert not path.exists()
    began = []
    made = trained("autofl", path, 3, on_progress=lambda number, _: began.append(number))

    whole = trained("autofl", tmp_path / "whole.safetensors", 3)
    (clients,) = whole.file.weights
    assert min(began) == 2
    assert same(made.file.weights[clients], whole.file.weights[clients])


def test_a_training_with_other_seeds_is_not_continued(tmp_path):
    path = tmp_path / "one.safetensors"
    trained("autofl", path, 1)

    with pytest.raises(ScenarioError, match="other settings or seeds; delete it to begin anew"):
        trained("autofl", path, 2, first_seed=60)


def test_a_selector_that_does_not_learn_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="'oort' does not learn over episodes; choose favor"):
        train_by_episodes(
            fleetsim.load("quickstart", ["server.selector.kind=oort"]),
            episodes=1,
            first_seed=1,
            out=tmp_path / "one.safetensors",
            command="train",
        )
