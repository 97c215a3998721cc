"""Searches: their files, the choice of trials, pruning, and what is made again after a kill."""

import json
import math
from contextlib import nullcontext

import pandas as pd
import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.schema import strict_yaml
from fleetsim.simulate import run
from fleetsim.studies.backends import RemoteTasks
from fleetsim.studies.search.page import finding, write_page
from fleetsim.studies.search.searching import SearchStore, measured_by_runs, search
from fleetsim.studies.search.space import load_space
from fleetsim.studies.search.trials import FILE, SeedCosts, best_of
from tests.studies.small_studies import AtOnce, Silent

SEARCH = {
    "name": "small",
    "scenario": "quickstart",
    "train": False,
    "overrides": {"fleet.size": 20, "stop.rounds": 2},
    "search": {
        "server.cohort": {"low": 2, "high": 12},
        "server.deadline_s": {"low": 0.1, "high": 100, "log": True},
        "server.selector": {"choices": [{"kind": "random"}, {"kind": "round-robin"}]},
    },
    "objective": {"metric": "joules", "bound": {"metric": "seconds", "most": 100.0}},
    "seeds": [1, 2, 3],
    "trials": 40,
}


def written(folder, **changes):
    path = folder / "small.yaml"
    data = {key: value for key, value in (SEARCH | changes).items() if value is not None}
    path.write_text(strict_yaml.dump(data), encoding="utf-8")
    return path


class Planted:
    """Costs with one optimum, cohort 7 and a deadline of 3 s, in place of runs.

    It costs 10 J there, times the ratio of the other key from its optimum, twice as much with the
    other selector, and 10 % more with each further seed. Seconds are 10 times the cohort.
    """

    def __init__(self, *, dies_after=math.inf):
        self.runs = []
        self._dies_after = dies_after

    def __call__(self, scenarios, seeds):
        if len(self.runs) >= self._dies_after:
            raise KeyboardInterrupt
        self.runs += [(number, seed) for number in scenarios for seed in seeds]
        return {number: [self.costs(each, s) for s in seeds] for number, each in scenarios.items()}

    @staticmethod
    def costs(scenario, seed):
        server = scenario.data()["server"]
        logs = abs(math.log(server["cohort"] / 7)) + abs(math.log(server["deadline_s"] / 3))
        factor = 1 if server["selector"]["kind"] == "round-robin" else 2
        joules = 10 * math.exp(logs) * factor * 1.1 ** (seed - 1)
        return SeedCosts(seed=seed, costs=(joules, 10.0 * server["cohort"]), is_reached=True)


def searched(space, folder, measure, num_trials=40):
    return search(space, folder / "out", measure, num_trials=num_trials)


@pytest.fixture(autouse=True)
def _needs_optuna():
    pytest.importorskip("optuna", reason="no optuna; pip install 'fleetsim[optimize]'")


@pytest.mark.slow
def test_a_planted_optimum_is_nearly_reached_and_bad_trials_have_one_seed(tmp_path):
    space, measure = load_space(written(tmp_path)), Planted()

    trials = searched(space, tmp_path, measure)

    first, best = trials[0], best_of(trials, space.settings.objective)
    own = {"server.cohort": 8, "server.deadline_s": 3.0, "server.selector": '{"kind": "random"}'}
    assert first.parameters == own
    # 2 x 8/7 x 10 J, and the mean of 1, 1.1 and 1.21, which is 1.1.
    assert first.costs() == pytest.approx((2 * 8 / 7 * 11, 80))
    assert best.parameters["server.selector"] == '{"kind": "round-robin"}'
    assert 11 <= best.costs()[0] < 11 * 1.3
    assert "0.4" in finding(space, trials) or "0.5" in finding(space, trials)
    for trial in trials[:4]:
        assert trial.state == "complete"
    for trial in trials[4:]:
        before = best_of(trials[: trial.number // 4 * 4], space.settings.objective)
        # Every seed costs 1.1 times the one before, so ratios are those of the first seed.
        ratio = trial.seeds[0].costs[0] / before.seeds[0].costs[0]
        is_over = trial.parameters["server.cohort"] * 10 > 1.5 * 100
        assert len(trial.seeds) == (1 if ratio > 1.5 or is_over else 3), trial
    assert len(measure.runs) == sum(len(trial.seeds) for trial in trials)


@pytest.mark.slow
def test_the_bound_holds_for_the_best_trial(tmp_path):
    bound = {"metric": "seconds", "most": 45.0}
    space = load_space(written(tmp_path, objective={"metric": "joules", "bound": bound}))

    trials = searched(space, tmp_path, Planted())

    best = best_of(trials, space.settings.objective)
    # The cheapest trial whose cohort is 4 or less; without the bound it would be nearer to 7.
    complete = [trial for trial in trials if trial.state == "complete"]
    allowed = [trial for trial in complete if trial.parameters["server.cohort"] <= 4]
    assert best is min(allowed, key=lambda trial: trial.costs()[0])
    assert trials[0].outcome(space.settings.objective) == "over the bound"


@pytest.mark.slow
def test_a_trial_that_misses_the_target_is_ranked_behind_all_that_reach_it(tmp_path):
    def measure(scenarios, seeds):
        """Small cohorts are the cheapest, as they never reach the target with the last seed."""
        return {
            number: [
                SeedCosts(seed=seed, costs=(cohort, 1.0), is_reached=cohort > 5 or seed < 3)
                for seed in seeds
            ]
            for number, each in scenarios.items()
            for cohort in [float(each.server.cohort)]
        }

    space = load_space(written(tmp_path), "prune_ratio=null")
    trials = searched(space, tmp_path, measure)

    best = best_of(trials, space.settings.objective)
    assert min(trial.parameters["server.cohort"] for trial in trials) < 6
    assert best.parameters["server.cohort"] == 6
    assert {len(trial.seeds) for trial in trials} == {3}


@pytest.mark.slow
def test_a_search_that_was_killed_or_is_made_longer_has_the_same_trials(tmp_path):
    space = load_space(written(tmp_path))
    whole = searched(space, tmp_path / "a", Planted(), 18)

    with pytest.raises(KeyboardInterrupt):
        searched(space, tmp_path / "b", Planted(dies_after=20), 18)
    searched(space, tmp_path / "b", Planted(), 10)  # ends within a batch
    continued = searched(space, tmp_path / "b", Planted(), 18)
    again = searched(space, tmp_path / "b", Planted(dies_after=0), 18)  # nothing is left

    assert continued == whole == again
    other = load_space(written(tmp_path, sampler_seed=1))
    assert searched(other, tmp_path / "c", Planted(), 18)[1:] != whole[1:]


@pytest.mark.slow
def test_trials_of_another_search_or_damaged_ones_are_not_continued(tmp_path):
    searched(load_space(written(tmp_path)), tmp_path, Planted(), 2)
    path = tmp_path / "out" / FILE

    def message(space):
        with pytest.raises(DataError) as caught:
            searched(space, tmp_path, Planted(), 2)
        return str(caught.value)

    other = load_space(written(tmp_path, seeds=[1, 2]))
    assert message(other).startswith(f"{path}: its trials are those of another search")
    space = load_space(written(tmp_path, trials=50, question="Which?"))
    assert len(searched(space, tmp_path, Planted(), 2)) == 2
    data = json.loads(path.read_text())
    data["trials"][1]["seeds"] = 3
    path.write_text(json.dumps(data))
    assert "delete it" in message(space)


@pytest.mark.slow
def test_a_scenario_that_the_schema_refuses_is_a_failed_trial_with_its_reason(tmp_path):
    keys = {"server.cohort": {"low": 2, "high": 16}, "fleet.size": {"low": 10, "high": 20}}
    measure = Planted()

    trials = searched(load_space(written(tmp_path, search=keys, seeds=[1])), tmp_path, measure)

    failed = {trial.number for trial in trials if trial.state == "failed"}
    values = {trial.number: trial.parameters for trial in trials}
    assert failed == {
        n
        for n, each in values.items()
        if math.ceil(1.25 * each["server.cohort"]) > each["fleet.size"]
    }
    assert failed
    assert failed.isdisjoint(number for number, _ in measure.runs)
    assert "more clients than the fleet has" in trials[min(failed)].reason


@pytest.mark.slow
def test_runs_are_made_once_and_the_page_tells_the_best_and_the_command_that_runs_it(tmp_path):
    """Without training, joules of a whole run rise with the cohort: the least one is the best."""
    keys = {"server.cohort": {"low": 2, "high": 4}, "server.over_commit": {"choices": [1.0]}}
    space = load_space(written(tmp_path, search=keys, trials=8, question="<b>Few?</b>"))
    store, executor = SearchStore(tmp_path / "home"), AtOnce()
    measure = measured_by_runs(space, store, RemoteTasks(executor), lambda: nullcontext(Silent()))

    trials = search(space, tmp_path / "a", measure, num_trials=8)
    num_tasks = executor.num_tasks
    again = search(space, tmp_path / "b", measure, num_trials=8)

    objective = space.settings.objective
    best = best_of(trials, objective)
    assert best.parameters == {"server.cohort": 2, "server.over_commit": "1.0"}
    alone = [
        run(space.scenario(best.parameters).with_seed(seed), out=tmp_path / str(seed), train=False)
        for seed in (1, 2, 3)
    ]
    joules = [one.rounds["energy_total_j"].iloc[-1] for one in alone]
    assert [each.costs[0] for each in best.seeds] == joules
    assert best.costs()[0] == pytest.approx(math.prod(joules) ** (1 / 3))
    assert again == trials
    assert executor.num_tasks == num_tasks
    page = write_page(space, trials, tmp_path / "out", optuna="5").read_text()
    assert "&lt;b&gt;Few?&lt;/b&gt;" in page
    asked = "fleetsim run quickstart --seed 1 --no-train --set fleet.size=20 --set stop.rounds=2"
    words = f"{asked} --set server.cohort=2 --set server.over_commit=1.0"
    assert words in page
    table = pd.read_csv(tmp_path / "out" / "trials.csv")
    assert table["joules"].idxmin() == best.number
    assert table["outcome"].tolist() == [trial.outcome(objective) for trial in trials]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"search": {}}, "at least 1 item"),
        ({"search": {"server.cohrt": {"low": 2, "high": 3}}}, "did you mean 'cohort'?"),
        ({"search": {"server..cohort": {"low": 2, "high": 3}}}, "is no key path"),
        ({"search": {"server.cohort": {"low": 2, "high": 21}}}, "fleet.size"),
        ({"search": {"server.cohort": {"low": 2}}}, "a range needs low and high"),
        ({"search": {"server.cohort": {"low": 3, "high": 3}}}, "must be more than low = 3"),
        ({"search": {"server.cohort": {"low": 2, "high": 7, "step": 2}}}, "divide high - low"),
        ({"search": {"server.cohort": {"low": 0, "high": 7, "log": True}}}, "must be above 0"),
        ({"search": {"server.cohort": {}}}, "give low and high of a range, or a list"),
        ({"search": {"server.cohort": {"choices": [2, 2]}}}, "has a choice twice"),
        ({"search": {"server.cohort": {"low": 2, "choices": [2]}}}, "give low and high"),
        ({"search": {"seed": {"low": 2, "high": 3}}}, "is set by seeds"),
        ({"objective": {"target": 0.9}}, "without training there is no accuracy"),
        ({"objective": {"metric": "dollars"}}, "needs prices"),
        ({"objective": {"bound": {"metric": "joules", "most": 1.0}}}, "bound another one"),
        ({"objective": {"metric": "watts"}}, "'joules'"),
        ({"scenario": "quickstrat"}, "did you mean 'quickstart'?"),
        ({"seeds": [1, 1]}, "name it once"),
        ({"trails": 3}, "did you mean 'trials'?"),
    ],
)
def test_a_wrong_search_file_is_refused_in_one_line(tmp_path, changes, text):
    with pytest.raises(ScenarioError) as caught:
        load_space(written(tmp_path, **changes))

    message = str(caught.value)
    assert text in message
    assert "\n" not in message
    assert message.startswith(f"{tmp_path}/small.yaml:")
