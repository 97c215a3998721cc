"""Study files: combinations, messages, and the identity of runs."""

import itertools
import shutil
import sys
from typing import Any

import pytest

from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.scenario import load
from fleetsim.studies.planned_run import run_key
from fleetsim.studies.study import load_study
from tests.studies.small_studies import loaded, written


def fault(folder, **changes):
    with pytest.raises(ScenarioError) as caught:
        load_study(written(folder, **changes))
    return str(caught.value)


def test_arms_conditions_and_seeds_multiply(tmp_path):
    study = loaded(
        tmp_path,
        vary={
            "server.deadline_s": [60, 600],
            "network": {
                "slow": {"fleet.channel.bandwidth_hz": 1.0e5},
                "fast": {"fleet.channel.bandwidth_hz": 1.0e7},
            },
        },
        seeds=[3, 1],
    )

    conditions = [
        "deadline_s=60, network=slow",
        "deadline_s=60, network=fast",
        "deadline_s=600, network=slow",
        "deadline_s=600, network=fast",
    ]
    assert [(run.seed, run.condition, run.arm) for run in study.runs] == list(
        itertools.product([3, 1], conditions, ["random", "cohort of 5"])
    )
    by_name = {run.name: run.scenario for run in study.runs}
    one = by_name["deadline_s=600, network=fast, cohort of 5, seed 3"]
    server, channel = one.data()["server"], one.data()["fleet"]["channel"]
    assert (one.seed, server["cohort"], server["deadline_s"]) == (3, 5, 600.0)
    assert channel["bandwidth_hz"] == 1.0e7
    assert len({run.key for run in study.runs}) == 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"baseline_level": 60}, "baseline_level = 60: is for one arm whose keys vary"),
        ({"primary": {"target": 0.8}}, "primary.target = 0.8: is no target; the targets are none"),
        ({"primary": {"metric": "watts"}}, "primary.metric = 'watts': must be 'rounds'"),
        (
            {"primary": {"metric": "dollars"}},
            "primary.metric = 'dollars': is no cost of this study; its costs are rounds, seconds,"
            " joules; `prices` that give it add it",
        ),
        ({"equivalence_margin": 0}, "equivalence_margin = 0: must be a number >= 0.0001"),
        (
            {"arms": {"a": {}}, "vary": {"server.deadline_s": [60, 600]}, "baseline_level": 90},
            "baseline_level = 90: is no level; the levels are deadline_s=60, deadline_s=600",
        ),
    ],
)
def test_outcomes_and_levels_that_do_not_exist_are_refused(tmp_path, changes, message):
    assert message in fault(tmp_path, **changes)


def test_a_level_is_named_by_its_value_or_its_label(tmp_path):
    arms: dict[str, Any] = {"a": {}}
    for vary, level, label in (
        ({"server.deadline_s": [60, 600]}, 600, "deadline_s=600"),
        ({"server.deadline_s": [60, 600]}, "deadline_s=60", "deadline_s=60"),
        (
            {"server.deadline_s": [60, 600], "server.cohort": [3, 4]},
            *["deadline_s=60, cohort=4"] * 2,
        ),
    ):
        assert loaded(tmp_path, arms=arms, vary=vary, baseline_level=level).baseline_level == label


def test_rounds_of_servers_of_different_modes_are_not_compared(tmp_path):
    buffered = {"server": {"mode": "buffered", "concurrency": 3, "buffer_size": 2}}

    arms: dict[str, Any] = {"a": {}, "b": buffered}
    assert loaded(tmp_path).metrics == ("rounds", "seconds", "joules")
    assert loaded(tmp_path, arms=arms).metrics == ("client updates", "seconds", "joules")
    message = fault(tmp_path, arms=arms, primary={"metric": "rounds"})
    assert "primary.metric = 'rounds': is no cost of this study; its costs are client" in message


def test_a_scenario_with_another_seed_is_the_one_loaded_with_that_seed():
    assert load("quickstart").with_seed(7).data() == load("quickstart", seed=7).data()


def test_an_arm_in_another_world_is_refused_unless_the_study_says_so(tmp_path):
    arms = {"random": {}, "more people": {"fleet.size": 13}}

    assert fault(tmp_path, arms=arms) == (
        f"{tmp_path}/small.yaml:5: arms.more people: has another world than random, it differs in"
        " fleet.size; vary these keys instead, or set different_worlds: true"
    ).replace(":5:", f":{line_of(tmp_path, 'more people')}:")
    assert loaded(tmp_path, arms=arms, different_worlds=True).arms == ("random", "more people")


def line_of(folder, text):
    lines = (folder / "small.yaml").read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"scenario": "quickstrat"}, "did you mean 'quickstart'?"),
        ({"prices": "aws"}, "no such bundled prices or path"),
        ({"baseline": "oort"}, "is no arm; the arms are random, cohort of 5"),
        ({"targets": [0.5]}, "without training there is no accuracy"),
        ({"seeds": [1, 1]}, "name it once"),
        ({"seeds": []}, "seeds"),
        ({"arms": {}}, "arms"),
        ({"arms": {"a, b": {}}}, "arms"),
        ({"arms": {"a": {}, "b": {}}}, "b and a are the same scenario"),
        ({"vary": {"server.cohort": [3, 3]}}, "has the level 3 twice"),
        (
            {"vary": {"seed": [3, 4]}},
            "vary.seed = [3, 4]: is a column of every study's tables; seeds names them",
        ),
        (
            {"vary": {"status": {"a": {}, "b": {}}}},
            "is a column of every study's tables; name it otherwise",
        ),
        ({"vary": {"checkpoint.every_rounds": [1, 2]}}, "are the same scenario"),
        ({"budgets": {}}, "names no budget"),
        ({"arms": {"a": {"server..cohort": 2}}}, "'server..cohort' is no key path"),
        ({"train": True, "targets": [0.5, {"accuracy": 0.5}]}, "is there twice"),
        (
            {"vary": {"server.cohort": list(range(1, 401))}, "seeds": list(range(500))},
            "400,000 runs, more than 100,000",
        ),
    ],
)
def test_a_wrong_study_file_is_refused_in_one_line(tmp_path, changes, text):
    message = fault(tmp_path, **changes)

    assert text in message
    assert "\n" not in message
    assert message.startswith(f"{tmp_path}/small.yaml:")


def test_a_fault_of_an_arm_names_the_line_of_the_study(tmp_path):
    message = fault(tmp_path, arms={"random": {}, "wrong": {"server.cohrt": 3}})

    place = f"{tmp_path}/small.yaml:{line_of(tmp_path, 'cohrt')}: arms.wrong"
    assert message.startswith(place)
    assert "did you mean 'cohort'?" in message


def test_a_fault_in_a_line_of_the_scenario_names_the_arm_that_brings_it(tmp_path):
    message = fault(tmp_path, arms={"random": {}, "late": {"server.mode": "buffered"}})

    place = f"{tmp_path}/small.yaml:{line_of(tmp_path, 'late')}: arm 'late': "
    of_scenario = [line for line in message.split("\n") if "quickstart.yaml:" in line]
    assert len(of_scenario) == 2  # a key that is missing, and one of the other mode
    assert all(line.startswith(place) for line in of_scenario)


def test_faults_of_all_arms_are_listed_each_once(tmp_path):
    message = fault(
        tmp_path,
        overrides={"server.cohrt": 3},
        arms={"a": {"server.min_updates": -1}, "b": {}},
        vary={"server.deadline_s": [60, 600]},
    )

    lines = message.split("\n")
    assert len(lines) == 2
    assert "overrides" in lines[0]
    assert "arms.a" in lines[1]


@pytest.mark.parametrize(
    ("changes", "train", "is_same"),
    [
        (["name=mine"], True, True),
        (["seed=2"], True, False),
        (["server.cohort=3"], True, False),
        ([], False, False),
    ],
)
def test_all_that_changes_the_tables_enters_the_identity_of_a_run(changes, train, is_same):
    key = run_key(load("quickstart", changes), train=train)

    assert (key == run_key(load("quickstart"), train=True)) is is_same


def test_the_content_of_an_own_file_enters_the_identity_of_a_run(tmp_path):
    profile = tmp_path / "mine.yaml"
    shutil.copy(bundled.folder("devices") / "pixel-6.yaml", profile)
    scenario = load("quickstart", [f'fleet.devices={{"{profile}": 1.0}}'])
    before = run_key(scenario, train=True)

    profile.write_text(
        profile.read_text("utf-8").replace("title:", "title: New "), encoding="utf-8"
    )

    assert run_key(scenario, train=True) != before


PLUGIN = '''from typing import Literal
from fleetsim.settings import Settings

class First:
    """The first candidates."""

    needs_losses = needs_probes = False

    class Settings(Settings):
        """The first candidates."""

        kind: Literal["first"] = "first"

    def __init__(self, settings): pass
    def setup(self, fleet): return ()
    def probe(self, view): return ()
    def select(self, view): return view.candidates[: view.wanted]
    def observe(self, outcome): pass
    def state(self): return {}
    def restore(self, state): pass
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    (tmp_path / "first_ones.py").write_text(PLUGIN, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield "first_ones:First"
    sys.modules.pop("first_ones", None)


PLUGIN_ARM = {"random": {}, "first": {"server.selector.kind": "first"}}
BY_CONDITION = {"server.selector.kind": ["first", "random"]}


@pytest.mark.parametrize(
    ("changes", "num_named"),
    [
        ({"arms": PLUGIN_ARM}, 1),
        ({"arms": {"one": {"server.selector": {"kind": "first"}}, "two": {}}}, 1),
        ({"arms": {"one": {}}, "vary": BY_CONDITION}, 1),
        ({"overrides": {"server.selector.kind": "first", "stop.rounds": 2}}, 2),
    ],
)
def test_cells_that_name_the_kind_of_a_plug_in_have_it(tmp_path, plugin, changes, num_named):
    study = load_study(written(tmp_path, **changes), plugin=plugin)

    named = [scenario for scenario in study.cells.values() if scenario.plugins]
    assert len(named) == num_named
    assert {scenario.data()["server"]["selector"]["kind"] for scenario in named} == {"first"}


def test_a_plug_in_that_no_arm_has_is_refused(tmp_path, plugin):
    with pytest.raises(ScenarioError, match=r"no arm has it; set .* first in one"):
        load_study(written(tmp_path), plugin=plugin)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ("overrides.server.cohort=4", 'write overrides."server.cohort"'),
        ("arms.random.server.cohort=4", 'write arms.random."server.cohort"'),
        ("arms.other.server.cohort=4", 'write arms.other."server.cohort"'),
    ],
)
def test_a_key_of_the_scenario_without_quotes_is_refused(tmp_path, change, hint):
    """It would replace the whole server."""
    with pytest.raises(ScenarioError) as caught:
        load_study(written(tmp_path), [change])

    assert str(caught.value) == f"--set {change}: a key with a dot needs quotes; {hint}"


@pytest.mark.parametrize(
    "change",
    [
        'overrides."server.selector"={kind: oort}',
        "overrides.stop={rounds: 3}",
        'arms.other={"server.cohort": 4}',
        'arms."other"."server.cohort"=4',
        "budgets.time_s=5",
        "vary.people.few={}",
    ],
)
def test_other_overrides_of_a_study_are_taken(tmp_path, change):
    assert load_study(written(tmp_path), [change]).cells
