"""Aggregators and partitions of the user: from Python, by name, as a kind, in a study."""

import hashlib
import itertools
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typing_extensions

import fleetsim
from fleetsim.errors import ScenarioError
from fleetsim.record.saved_run import open_run
from fleetsim.report.pages import scenario_differences
from fleetsim.scenario import load, schema
from fleetsim.studies.planned_run import run_key
from fleetsim.studies.study import load_study
from fleetsim.user import load_plugin, plugin
from tests.interrupts import interrupted
from tests.user.small import SMALL

OWN = '''
from typing import Literal
import numpy as np
from fleetsim.settings import Settings

__version__ = "1.5"

class Median:
    def aggregate(self, base, reports):
        return np.median([report.vector for report in reports], axis=0)

class Slow:
    """Part of the way to the mean."""

    class Settings(Settings):
        """A step of the way to the mean."""

        kind: Literal["slow"] = "slow"
        step: float = 0.5
        """Share of the way."""

    def __init__(self, settings):
        self.step, self.asked = settings.step, 0

    def aggregate(self, base, reports):
        self.asked += 1
        mean = np.mean([report.vector for report in reports], axis=0)
        return base + self.step ** self.asked * (mean - base)

    def state(self):
        return {"asked": np.array(self.asked)}

    def restore(self, state):
        self.asked = int(state["asked"])

class Shuffled:
    def split(self, labels, num_clients, generator):
        return np.array_split(generator.permutation(len(labels)), num_clients)

def in_turn(labels, num_clients, generator):
    return [np.arange(k, len(labels), num_clients) for k in range(num_clients)]

class Unequal:
    class Settings(Settings):
        """Client k gets k + first samples."""

        kind: Literal["unequal"] = "unequal"
        first: int = 20

    def __init__(self, settings):
        self.first = settings.first

    def split(self, labels, num_clients, generator):
        sizes = self.first + np.arange(num_clients)
        return np.split(generator.permutation(len(labels))[: sizes.sum()], sizes.cumsum()[:-1])
'''


@pytest.fixture
def own(own_module):
    return own_module(OWN, "own")


def run(*plugins, out, changes=(), **options):
    return fleetsim.run("small.yaml", changes, plugin=plugins, out=out, progress=False, **options)


def test_an_object_given_twice_begins_twice_with_the_same_state(own):
    class Counting:
        asked = 0

        def aggregate(self, base, reports):
            self.asked += 1
            return base + np.float32(0.01 * self.asked)

        def state(self):
            return {"asked": np.array(self.asked)}

        def restore(self, state):
            self.asked = int(state["asked"])

    given = Counting()
    digests = {run(out=out, aggregator=given).manifest.digest for out in ("one", "two")}

    assert len(digests) == 1
    assert given.asked == 0


@pytest.mark.slow
def test_a_class_with_settings_adds_its_kind(own):
    slow = "server.aggregator={kind: slow}"
    half = run("own:Slow", out="half", changes=slow)
    none = run("own:Slow", out="none", changes=[slow, "server.aggregator.step=0"])

    assert half.scenario["server"]["aggregator"] == {"kind": "slow", "step": 0.5}
    assert none.rounds["accuracy"].nunique() == 1
    assert half.rounds["accuracy"].nunique() > 1
    by_class = fleetsim.run(
        "small.yaml", slow, aggregator=sys.modules["own"].Slow, out="class", progress=False
    )
    assert by_class.manifest.digest == half.manifest.digest


def test_a_fault_in_its_settings_names_line_and_key(own):
    text = SMALL.replace("{kind: digits}", "{kind: digits}\n  partition: {kind: unequal, frist: 3}")
    Path("mine.yaml").write_text(text)

    with pytest.raises(ScenarioError) as fault:
        load("mine.yaml", plugin="own:Unequal")

    message = "mine.yaml:4: task.partition.frist = 3: unknown key; did you mean 'first'?"
    assert str(fault.value) == message


@pytest.mark.slow
def test_a_partition_decides_who_holds_how_much(own):
    unequal = run("own:Unequal", out="u", changes="task.partition={kind: unequal}", train=False)
    turns = fleetsim.run(
        "small.yaml", partition=sys.modules["own"].in_turn, out="t", train=False, progress=False
    )

    assert unequal.clients["num_samples"].tolist() == list(range(20, 32))
    num_digits = 1797 - 1797 // 5  # docs/data.md: four fifths of the digits are for training
    assert turns.clients["num_samples"].tolist() == [
        len(range(k, num_digits, 12)) for k in range(12)
    ]
    assert turns.scenario["task"]["partition"] == {"kind": "own:in_turn"}


@pytest.mark.slow
def test_the_draws_of_a_partition_follow_the_seed_of_the_clients(own):
    def shares(seed):
        settings: Any = load_plugin("own:Shuffled").settings()
        labels = np.zeros(60, dtype=np.int64)
        return [s.tolist() for s in settings.split(
            labels=labels, owner=None, num_clients=3, seed=seed
        )]  # fmt: skip

    assert shares(1) == shares(1)
    assert shares(1) != shares(2)
    assert sorted(itertools.chain(*shares(1))) == list(range(60))
    assert all(own == sorted(own) for own in shares(1))


@pytest.mark.slow
def test_a_resumed_run_has_the_digest_of_one_that_was_not_interrupted(own):
    changes = ["server.aggregator={kind: slow}", "checkpoint.every_rounds=1"]
    whole = run("own:Slow", "own:Shuffled", out="whole", changes=changes)
    interrupted(run, "own:Slow", "own:Shuffled", out="parts", changes=changes, after=2)

    resumed = run("own:Shuffled", "own:Slow", out="parts", changes=changes, resume=True)

    assert resumed.manifest.digest == whole.manifest.digest


@pytest.mark.slow
def test_a_run_is_not_resumed_with_another_version_of_a_part(own, own_module):
    """Its own file may be the same where other files of the distribution are not."""
    interrupted(run, "own:Median", out="out", after=2)
    vars(sys.modules["own"])["__version__"] = "1.6"

    with pytest.raises(ScenarioError, match=r"own:Median is version 1\.6, and was 1\.5 when"):
        run("own:Median", out="out", resume=True)


@pytest.mark.slow
def test_comparisons_tell_versions_of_a_part_apart(own, own_module):
    runs = [run("own:Shuffled", out="one", train=False)]
    own_module(OWN.replace("1.5", "1.6"), "own")
    runs.append(run("own:Shuffled", out="two", train=False))
    runs.append(run("own:Median", "own:Shuffled", out="three", train=False))

    differences = scenario_differences.differences(runs)
    assert {".".join(map(str, one.path)) for one in differences} >= {
        "task.partition.source_sha256", "task.partition.version", "server.aggregator.kind"
    }  # fmt: skip
    # Another file is another world: it decides who holds what.
    worlds = scenario_differences.world_differences(runs[:2])
    assert [line.partition(" ")[0] for line in worlds] == [
        "task.partition.source_sha256", "task.partition.version"
    ]  # fmt: skip
    assert runs[0].manifest.world_hash != runs[1].manifest.world_hash
    assert runs[1].manifest.world_hash == runs[2].manifest.world_hash


STUDY = {
    "name": "parts", "question": "Which part?", "scenario": "small.yaml", "seeds": [1],
    "targets": [0.5],
    "arms": {
        "mean": {},
        "median": {"server.aggregator.kind": "own:Median"},
        "slow": {"server.aggregator": {"kind": "slow", "step": 0.25}},
    },
    "vary": {"task.partition": {"iid": {"task.partition": {"kind": "iid"}},
                                "own": {"task.partition": {"kind": "own:Shuffled"}}}},
}  # fmt: skip
NAMES = ("own:Median", "own:Slow", "own:Shuffled")


@pytest.mark.slow
def test_arms_and_conditions_of_a_study_name_parts_of_any_kind_and_all_that_are_given(own):
    study = load_study(STUDY, plugin=NAMES)

    used = {
        (label, arm): sorted(plugin.word for plugin in scenario.plugins)
        for (label, arm), scenario in study.cells.items()
    }
    assert used == {
        ("partition=iid", "mean"): [], ("partition=own", "mean"): ["own:Shuffled"],
        ("partition=iid", "median"): ["own:Median"],
        ("partition=own", "median"): ["own:Median", "own:Shuffled"],
        ("partition=iid", "slow"): ["slow"], ("partition=own", "slow"): ["own:Shuffled", "slow"],
    }  # fmt: skip
    with pytest.raises(ScenarioError) as fault:
        load_study(STUDY, plugin=(*NAMES, "own:Unequal"))

    assert fault.value.faults[0] == (
        "--plugin own:Unequal: no arm has it; set task.partition.kind: unequal in one, or leave the"
        " plug-in out"
    )


@pytest.mark.slow
def test_a_run_of_a_study_is_made_again_with_another_file(own, own_module):
    keys = []
    for text in (OWN, OWN, OWN + "# edited\n"):
        own_module(text, "own")
        study = load_study(STUDY, plugin=NAMES)
        keys.append({cell: run_key(one, train=True) for cell, one in study.cells.items()})

    assert keys[0] == keys[1]
    same = {cell for cell in keys[0] if keys[0][cell] == keys[2][cell]}
    assert same == {("partition=iid", "mean")}


@pytest.mark.slow
def test_a_study_runs_with_parts_of_the_users_own_in_processes_of_its_own(own):
    result = fleetsim.study(STUDY, plugin=NAMES, home="home", jobs=1, progress=False)

    assert result.runs["status"].tolist() == ["done"] * 6
    alone = run("own:Median", "own:Shuffled", out="alone", workers=1)
    folders = result.runs.set_index(["condition", "arm"])["folder"]
    assert open_run(folders["partition=own", "median"]).manifest.digest == alone.manifest.digest


@pytest.mark.slow
def test_the_schema_has_the_kinds_of_all_parts(own):
    text = str(schema(["own:Slow", "own:Unequal"]))

    assert "'slow'" in text
    assert "'unequal'" in text
    assert "'slow'" not in str(schema())
    assert "A step of the way to the mean." in text


def test_the_kind_is_named_where_a_class_does_not_show_it(own_module):
    own_module("class Both:\n    def aggregate(self, base, reports): return base\n"
               "    def split(self, labels, num_clients, generator): return []\n"
               "class None_: pass\n", "own")  # fmt: skip

    with pytest.raises(ScenarioError) as fault:
        load_plugin("own:Both")
    assert str(fault.value) == (
        "--plugin own:Both: has methods of an aggregator and a partition; say which it is:"
        " --plugin aggregator=own:Both"
    )
    assert load_plugin("partition=own:Both").kind.name == "partition"
    with pytest.raises(ScenarioError, match=r"has no method by which a kind is known: selector \("):
        load_plugin("own:None_")
    with pytest.raises(ScenarioError, match=r"'agregator' is no kind .* did you mean 'aggregator'"):
        load_plugin("agregator=own:Both")


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        (("own:Median", "aggregator=own:Median"), "--plugin aggregator=own:Median and --plugin own:"
         "Median are both the server.aggregator; leave out one of the two"),
        (("own:Slow",), "--plugin own:Slow is the aggregator of kind 'slow', which the scenario"
         " does not use; add --set server.aggregator.kind=slow, or leave out --plugin"),
    ],
)  # fmt: skip
def test_parts_that_cannot_all_be_used_are_refused(plugins, message, own):
    with pytest.raises(ScenarioError) as fault:
        load("small.yaml", plugin=plugins)

    assert str(fault.value).endswith(message)


def test_a_scenario_that_names_a_part_is_not_followed_without_it(own):
    Path("resolved.yaml").write_text(load("small.yaml", plugin="own:Shuffled").to_yaml())
    del sys.modules["own"]

    with pytest.raises(
        ScenarioError, match=r"task.partition.kind = 'own:Shuffled': is no partition"
    ):
        load("resolved.yaml")
    assert "own" not in sys.modules


def test_a_part_does_not_take_the_place_of_another_that_the_scenario_names(own):
    message = (
        r"task.partition.kind = 'own:Shufled': is another partition than --plugin own:Shuffled;"
        r" .* --set task.partition.kind=own:Shuffled$"
    )
    with pytest.raises(ScenarioError, match=message):
        load("small.yaml", "task.partition.kind=own:Shufled", plugin="own:Shuffled")
    named = load("small.yaml", "server.aggregator.kind=own:Median", plugin="own:Median")

    assert load(named, plugin="own:Median").data()["server"]["aggregator"]["kind"] == "own:Median"


def test_a_key_of_the_settings_that_fleetsim_needs_itself_is_refused(own_module):
    own_module(OWN.replace("first: int", "owner: int").replace("settings.first", "0")
               .replace("owner: int", "shortage: int"), "own")  # fmt: skip

    with pytest.raises(ScenarioError, match="its Settings have a key 'shortage'; choose another"):
        load_plugin("own:Unequal")


class Local:
    pass


def test_the_source_is_the_whole_file_that_defines_it():
    expected = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()

    assert plugin.source_sha256(Local) == expected
    assert plugin.source_sha256(dict) is None  # written in C
    assert plugin.name_of(Local.__init__.__class__).endswith(":wrapper_descriptor")


def test_the_version_is_that_of_the_nearest_module_then_of_the_distribution(monkeypatch):
    package, module = type(sys)("own_package"), type(sys)("own_package.part")
    monkeypatch.setitem(sys.modules, "own_package", package)
    monkeypatch.setitem(sys.modules, "own_package.part", module)
    cls = type("Part", (), {"__module__": "own_package.part"})

    assert plugin.version_of(cls) is None
    vars(package)["__version__"] = "2.0"
    assert plugin.version_of(cls) == "2.0"
    vars(module)["__version__"] = "2.1"
    assert plugin.version_of(cls) == "2.1"
    assert not hasattr(typing_extensions, "__version__")
    of_distribution = plugin.version_of(typing_extensions.deprecated)
    if typing_extensions.deprecated.__module__ == "typing_extensions":  # a part of Python 3.13
        assert of_distribution == metadata.version("typing_extensions")
