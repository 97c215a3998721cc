"""Searches: their files, the choice of trials, pruning, and what is made again after a kill."""

import json
import math
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from fleetsim.cli import app
from fleetsim.errors import DataError, ScenarioError
from fleetsim.schema import strict_yaml
from fleetsim.simulate import run
from fleetsim.studies.backends import RemoteTasks
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.search.page import write_page
from fleetsim.studies.search.sampling import domains
from fleetsim.studies.search.search_file import load_search
from fleetsim.studies.search.searching import make_trials, measured_by_runs
from fleetsim.studies.search.trials import FILE, SeedCosts, best_of
from tests.studies.small_studies import AtOnce, Silent

SEARCH = {
    "name": "small",
    "scenario": "quickstart",
    "train": False,
    "overrides": {"fleet.size": 20, "stop.rounds": 2},
    "search": {
        "server.cohort": {"low": 2, "high": 12},
        "server.deadline_s": {"low": 0.1, "high": 100.0, "log": True},
        "server.selector": {"choices": [{"kind": "random"}, {"kind": "round-robin"}]},
    },
    "objective": {"metric": "joules", "bound": {"metric": "seconds", "most": 100.0}},
    "seeds": [1, 2, 3],
    "trials": 37,
}
BATCH = 4


@pytest.fixture(autouse=True)
def _needs_optuna():
    pytest.importorskip("optuna", reason="no optuna; pip install 'fleetsim[optimize]'")


def loaded(folder, *changes, **keys):
    path = folder / "small.yaml"
    path.write_text(strict_yaml.dump(SEARCH | keys), encoding="utf-8")
    search = load_search(path, changes)
    domains(search)
    return search


def made(search, folder, measure):
    return make_trials(search, folder / "out", measure, lambda trial: None)


def best_in(trials, search):
    best = best_of(trials, search.settings.objective)
    assert best is not None
    return best


class Planted:
    """Costs with one optimum, cohort 7, a deadline of 3 s and round-robin, in place of runs.

    It costs 10 J there, times the ratio of each number to its optimum, twice as much with the other
    selector, and 10 % more with each further seed. Seconds are 10 times the cohort.
    """

    def __init__(self, *, dies_after=math.inf, misses=lambda cohort, seed: False):
        self.names = []
        self._dies_after, self._misses = dies_after, misses

    def __call__(self, study):
        if len(self.names) >= self._dies_after:
            raise KeyboardInterrupt
        self.names += [planned.name for planned in study.runs]
        results: dict[str, list[SeedCosts]] = {arm: [] for arm in study.arms}
        for planned in study.runs:
            server = planned.scenario.server
            logs = abs(math.log(server.cohort / 7)) + abs(math.log(server.deadline_s / 3))
            factor = 1 if server.selector.kind == "round-robin" else 2
            costs = 10 * math.exp(logs) * factor * 1.1 ** (planned.seed - 1), 10.0 * server.cohort
            is_reached = not self._misses(server.cohort, planned.seed)
            one = SeedCosts(seed=planned.seed, costs=costs, is_reached=is_reached)
            results[planned.arm].append(one)
        return results


@pytest.mark.slow
def test_a_planted_optimum_is_nearly_reached_and_bad_trials_have_one_seed(tmp_path):
    search, measure = loaded(tmp_path), Planted()

    trials = made(search, tmp_path, measure)

    best = best_in(trials, search)
    # quickstart: 8 clients, 3 s, random. The geometric mean of 1, 1.1 and 1.21 is 1.1.
    assert trials[0].costs() == pytest.approx([10 * 8 / 7 * 2 * 1.1, 80])
    assert best.parameters["server.selector"] == "1"
    assert 11 <= best.costs()[0] < 11 * 1.3
    for trial in trials[1:]:
        before = best_in(trials[: 1 + (trial.number - 1) // BATCH * BATCH], search)
        # Every seed costs 1.1 times the one before, so ratios are those of the first seed.
        ratio = trial.seeds[0].costs[0] / before.seeds[0].costs[0]
        assert len(trial.seeds) == (1 if ratio > 1.5 else 3), trial
    assert len(measure.names) == sum(len(trial.seeds) for trial in trials)


@pytest.mark.slow
def test_a_trial_that_breaks_a_limit_is_ranked_behind_all_that_keep_them(tmp_path):
    """Above 50 s, or with the last seed and a cohort below 4, a limit is broken."""
    bound = {"metric": "seconds", "most": 50.0}
    search = loaded(tmp_path, "prune_ratio=null", objective={"metric": "joules", "bound": bound})
    measure = Planted(misses=lambda cohort, seed: cohort < 4 and seed == 3)

    trials = made(search, tmp_path, measure)

    objective = search.settings.objective
    cohorts = [trial.parameters.get("server.cohort", 8) for trial in trials]
    assert [trial.outcome(objective) for trial in trials] == [
        "over the bound" if cohort > 5 else "target missed" if cohort < 4 else "complete"
        for cohort in cohorts
    ]
    kept = [trial for trial, cohort in zip(trials, cohorts, strict=True) if cohort in (4, 5)]
    assert best_in(trials, search) is min(kept, key=lambda trial: trial.costs()[0])
    broken = [trial for trial in trials if trial not in kept]
    # A seed of three that missed the target weighs less than a bound exceeded by 6 / 5 twice.
    assert best_in(broken, search).parameters.get("server.cohort") == 6
    assert {len(trial.seeds) for trial in trials} == {3}


@pytest.mark.slow
def test_a_search_that_was_killed_or_is_made_longer_has_the_same_trials(tmp_path):
    whole = made(loaded(tmp_path, trials=15), tmp_path / "a", Planted())

    with pytest.raises(KeyboardInterrupt):
        made(loaded(tmp_path, trials=15), tmp_path / "b", Planted(dies_after=8))
    made(loaded(tmp_path, trials=11), tmp_path / "b", Planted())  # ends within a batch
    continued = made(loaded(tmp_path, trials=15), tmp_path / "b", Planted())
    again = made(loaded(tmp_path, trials=15), tmp_path / "b", Planted(dies_after=0))

    assert continued == whole == again
    other = made(loaded(tmp_path, trials=15, sampler_seed=1), tmp_path / "c", Planted())
    assert other[1:] != whole[1:]


@pytest.mark.slow
def test_trials_of_another_search_or_damaged_ones_are_not_continued(tmp_path):
    made(loaded(tmp_path, trials=2), tmp_path, Planted())
    path = tmp_path / "out" / FILE

    with pytest.raises(DataError, match="is that of another search"):
        made(loaded(tmp_path, trials=2, seeds=[1, 2]), tmp_path, Planted())
    data = json.loads(path.read_text())
    data["trials"][1]["seeds"] = 3
    path.write_text(json.dumps(data))
    with pytest.raises(DataError, match=r"trials\[1\]\.seeds = 3: must be a list .*; delete it"):
        made(loaded(tmp_path, trials=2), tmp_path, Planted())


@pytest.mark.slow
def test_a_scenario_that_the_schema_refuses_is_a_failed_trial_with_its_reason(tmp_path):
    keys = {"server.cohort": {"low": 2, "high": 16}, "fleet.size": {"low": 10, "high": 20}}
    measure = Planted()

    trials = made(loaded(tmp_path, search=keys, seeds=[1], trials=21), tmp_path, measure)

    failed = [trial for trial in trials if trial.state == "failed"]
    # quickstart selects 1.25 times the cohort.
    assert failed == [
        trial
        for trial in trials[1:]
        if 1.25 * trial.parameters["server.cohort"] > trial.parameters["fleet.size"]
    ]
    assert {f"trial {trial.number}, seed 1" for trial in failed}.isdisjoint(measure.names)
    assert all("fleet" in trial.reason for trial in failed)


@pytest.mark.slow
def test_runs_are_made_once_and_the_page_tells_the_best_and_the_command_that_runs_it(tmp_path):
    """Without training, joules of a whole run rise with the cohort: the least one is the best."""
    keys = {"server.cohort": {"low": 2, "high": 4}}
    search = loaded(tmp_path, search=keys, trials=7, question="<b>Few?</b>")
    executor = AtOnce()
    store = RunStore(tmp_path / "home")
    measure = measured_by_runs(search, store, RemoteTasks(executor), lambda: nullcontext(Silent()))

    trials = made(search, tmp_path / "a", measure)
    num_tasks = executor.num_tasks
    again = made(search, tmp_path / "b", measure)

    best = best_in(trials, search)
    assert best.parameters == {"server.cohort": 2}
    planned = search.trial("alone", best.parameters).runs
    alone = [
        run(each.scenario, out=tmp_path / str(each.seed), train=False).rounds for each in planned
    ]
    joules = [rounds["energy_total_j"].iloc[-1] for rounds in alone]
    assert [each.costs[0] for each in best.seeds] == joules
    assert best.costs()[0] == pytest.approx(math.prod(joules) ** (1 / 3))
    assert again == trials
    assert executor.num_tasks == num_tasks
    page = write_page(search, trials, tmp_path / "out").read_text()
    assert "&lt;b&gt;Few?&lt;/b&gt;" in page
    asked = "fleetsim run quickstart --seed 1 --no-train --set fleet.size=20 --set stop.rounds=2"
    assert f"{asked} --set server.cohort=2<" in page


@pytest.mark.slow
def test_the_verb_goes_on_with_the_trials_that_are_there(tmp_path):
    loaded(tmp_path, trials=3, seeds=[1], batch=2)
    home = tmp_path / "home"
    study = str(tmp_path / "small.yaml")
    words = ["study", "optimize", study, "--home", str(home), "--workers", "2"]

    begun = CliRunner().invoke(app, [*words, "--trials", "2"])
    whole = CliRunner().invoke(app, words)

    assert (begun.exit_code, whole.exit_code) == (0, 0)
    lines = [line.split(";")[0] for line in (begun.stdout + whole.stdout).splitlines()]
    assert [one for one in lines if one.startswith("trial ")] == ["trial 0", "trial 1", "trial 2"]
    assert f"search: {home}/studies/small/search.html" in whole.stdout


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"search": {}}, "at least 1 item"),
        ({"search": {"server.cohrt": {"low": 2, "high": 3}}}, "did you mean 'cohort'?"),
        ({"search": {"server..cohort": {"low": 2, "high": 3}}}, "is no key path"),
        ({"search": {"server.cohort": {"low": 2, "high": 21}}}, "must be at most fleet.size"),
        ({"search": {"server.cohort": {"low": 2}}}, "give low and high of a range, or choices"),
        ({"search": {"server.cohort": {"low": 3, "high": 2}}}, "low"),
        ({"search": {"server.over_commit": {"low": 1.0, "high": 2.0, "step": 0.0}}}, "step"),
        ({"search": {"server.cohort": {"low": 2, "high": 7, "log": True, "step": 5}}}, "log"),
        ({"search": {"server.cohort": {"low": 2, "choices": [2]}}}, "or choices alone"),
        ({"objective": {"target": 0.9}}, "without training there is no accuracy"),
        ({"objective": {"metric": "dollars"}}, "name a file of prices"),
        ({"objective": {"metric": "watts"}}, "'joules'"),
        ({"scenario": "quickstrat"}, "did you mean 'quickstart'?"),
        ({"seeds": [1, 1]}, "name it once"),
        ({"trails": 3}, "did you mean 'trials'?"),
    ],
)
def test_a_wrong_search_file_is_refused_in_one_line(tmp_path, changes, text):
    with pytest.raises(ScenarioError) as caught:
        loaded(tmp_path, **changes)

    message = str(caught.value)
    assert text in message
    assert "\n" not in message
    assert message.startswith(f"{tmp_path}/small.yaml:")
