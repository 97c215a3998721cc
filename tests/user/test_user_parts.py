"""Aggregators and partitions of the user's own: from Python, by name, as a kind, in a study."""

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetsim
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.record.saved_run import open_run
from fleetsim.report.pages import scenario_differences
from fleetsim.scenario import load, schema
from fleetsim.studies.planned_run import run_key
from fleetsim.studies.study import load_study
from fleetsim.user import given_plugin, load_plugin
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


def settings_of(given, kind="partition") -> Any:
    """Return the settings at the place of a part given from Python."""
    return given_plugin(kind, given).settings()


def run(*plugins, out, changes=(), **options):
    return fleetsim.run("small.yaml", changes, plugin=plugins, out=out, progress=False, **options)


@pytest.mark.slow
def test_an_aggregator_that_takes_the_mean_is_the_run_of_fedavg(own):
    """The mean of all answers with equal weights, in float64: FedAvg as it is written down."""

    class Mean:
        def aggregate(self, base, reports):
            vectors = [one.vector for one in sorted(reports, key=lambda one: one.client)]
            return np.mean(vectors, axis=0, dtype=np.float64)

    uniform = "server.aggregator={kind: fedavg, weights: uniform}"
    mine = run(out="mine", aggregator=Mean)
    theirs = run(out="theirs", changes=uniform)

    assert mine.rounds["accuracy"].tolist() == theirs.rounds["accuracy"].tolist()
    np.testing.assert_allclose(mine.rounds["loss"], theirs.rounds["loss"], rtol=1e-6)


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


# --- resume and comparison ------------------------------------------------------------------------


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

    found = {str(one.path[-1]): one for one in scenario_differences.differences(runs)}
    assert {".".join(map(str, one.path)) for one in found.values()} >= {
        "task.partition.source_sha256", "task.partition.version", "server.aggregator.kind"
    }  # fmt: skip
    # Another file is another world: it decides who holds what.
    worlds = scenario_differences.world_differences(runs[:2])
    assert [line.partition(" ")[0] for line in worlds] == [
        "task.partition.source_sha256", "task.partition.version"
    ]  # fmt: skip
    assert runs[0].manifest.world_hash != runs[1].manifest.world_hash
    assert runs[1].manifest.world_hash == runs[2].manifest.world_hash


@pytest.mark.slow
def test_a_manifest_of_the_time_of_selectors_alone_is_read(own):
    made = run("own:Median", out="out", train=False)
    path = made.folder / "manifest.json"
    text = path.read_text()
    head, tail = text.split('"plugins": [', 1)
    _, tail = tail.split("],", 1)
    tail = re.sub(r'"content_sha256": "\w+"', '"content_sha256": null', tail)
    digest = "0" * 64
    one = f'{{"name": "least:Least", "source_sha256": "{digest}"}}'
    for old, expected in (
        ("null", ()),
        (one, (("selector", "least:Least", digest, None),)),
    ):
        path.write_text(f'{head}"plugin": {old},{tail}')

        found = open_run("out").manifest.plugins
        assert tuple((p.kind, p.name, p.source_sha256, p.version) for p in found) == expected


# --- studies and schema ---------------------------------------------------------------------------

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
def test_arms_and_conditions_of_a_study_name_parts_of_any_kind(own):
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


@pytest.mark.slow
def test_a_part_that_no_arm_has_is_refused_by_its_key(own):
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
    made = open_run(folders["partition=own", "median"])
    assert made.manifest.digest == alone.manifest.digest


@pytest.mark.slow
def test_the_schema_has_the_kinds_of_all_parts(own):
    text = str(schema(["own:Slow", "own:Unequal"]))

    assert "'slow'" in text
    assert "'unequal'" in text
    assert "'slow'" not in str(schema())
    assert "A step of the way to the mean." in text


# --- what is refused ------------------------------------------------------------------------------


def test_the_kind_is_told_where_a_class_does_not_tell(own_module):
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
    ("plugins", "says"),
    [
        (("own:Median", "aggregator=own:Median"), "--plugin aggregator=own:Median and --plugin own:"
         "Median are both the server.aggregator; leave out one of the two"),
        (("own:Slow",), "--plugin own:Slow is the aggregator of kind 'slow', which the scenario"
         " does not use; add --set server.aggregator.kind=slow, or leave out --plugin"),
    ],
)  # fmt: skip
def test_parts_that_cannot_all_be_used_are_refused(plugins, says, own):
    with pytest.raises(ScenarioError) as fault:
        load("small.yaml", plugin=plugins)

    assert str(fault.value).endswith(says)


def test_a_scenario_that_names_a_part_is_not_followed_without_it(own):
    Path("resolved.yaml").write_text(load("small.yaml", plugin="own:Shuffled").to_yaml())
    del sys.modules["own"]

    with pytest.raises(
        ScenarioError, match=r"task.partition.kind = 'own:Shuffled': is no partition"
    ):
        load("resolved.yaml")
    assert "own" not in sys.modules


def test_a_key_of_the_settings_that_fleetsim_needs_itself_is_refused(own_module):
    own_module(OWN.replace("first: int", "owner: int").replace("settings.first", "0")
               .replace("owner: int", "shortage: int"), "own")  # fmt: skip

    with pytest.raises(ScenarioError, match="its Settings have a key 'shortage'; choose another"):
        load_plugin("own:Unequal")


SPLITS = {
    "None": (None, "split returned 'NoneType', not a list of arrays, one for each client"),
    "too few": ([[0], [1]], "split returned 2 arrays for 3 clients"),
    "nothing for one": ([[0], [], [1]], "no sample for client 1; every client needs one"),
    "masks": ([np.ones(9, bool)] * 3, "bool of shape (9,) for client 0, not indices [n]"),
    "two dimensions": ([[[0]], [1], [2]], "int64 of shape (1, 1) for client 0, not indices"),
    "past the end": ([[0], [9], [1]], "sample 9 for client 1; there are 0 to 8"),
    "before the start": ([[0], [1], [-1]], "sample -1 for client 2; there are 0 to 8"),
    "twice": ([[0], [1, 1], [2]], "a sample twice for client 1"),
    "shared": ([[0], [1, 5], [5, 2]], "sample 5 for clients 1 and 2"),
    "ragged": ([[[0], [1, 2]], [1], [2]], "no array of indices for client 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPLITS)
def test_an_answer_that_is_no_partition_is_refused(case):
    answer, message = SPLITS[case]
    settings = settings_of(lambda labels, num_clients, generator: answer)
    labels = np.zeros(9, dtype=np.int64)

    with pytest.raises(ScenarioError) as fault:
        settings.split(labels=labels, owner=None, num_clients=3, seed=1)

    (line,) = fault.value.faults
    assert line.startswith("partition ")
    assert message in line


def test_labels_cannot_be_changed_by_a_partition():
    def greedy(labels, num_clients, generator):
        labels[0] = 1

    labels = np.zeros(9, dtype=np.int64)

    with pytest.raises(ScenarioError, match="split fails: ValueError: assignment destination is"):
        settings_of(greedy).split(labels=labels, owner=None, num_clients=3, seed=1)
    assert labels.flags.writeable


def test_sequences_are_split_by_those_that_say_so():
    def ends(labels, num_clients, generator):
        return np.array_split(np.arange(len(labels)), num_clients)

    class Ends:
        splits_sequences = True

        def split(self, labels, num_clients, generator):
            return ends(labels, num_clients, generator)

    labels = np.zeros((6, 4), dtype=np.int64)
    split = {"owner": None, "num_clients": 2, "seed": 1, "labels": labels}

    with pytest.raises(ScenarioError, match="is a sequence with 4; choose iid or natural, or set"):
        settings_of(ends).split(**split)
    shares = settings_of(Ends).split(**split)
    assert [own.tolist() for own in shares] == [[0, 1, 2], [3, 4, 5]]


def aggregator_of(answer):
    class Answering:
        def aggregate(self, base, reports):
            return answer(base)

    return settings_of(Answering, "aggregator").build()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda base: None, "aggregate returned 'NoneType', not a numpy array"),
        (lambda base: base[:-1], "aggregate returned an array of shape (3,) for a model of (4,)"),
        (lambda base: base.astype(int), "aggregate returned an array of int64, not of float32 or"),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_model_is_refused(answer, says):
    with pytest.raises(ScenarioError) as fault:
        aggregator_of(answer).aggregate(np.zeros(4, dtype=np.float32), [])

    assert says in str(fault.value)


def test_the_model_and_the_reports_cannot_be_changed_by_an_aggregator():
    def greedy(base):
        base += 1
        return base

    with pytest.raises(PluginError, match=r"aggregate fails: ValueError: .*read-only"):
        aggregator_of(greedy).aggregate(np.zeros(4, dtype=np.float32), [])


def test_a_model_that_an_aggregator_keeps_is_no_longer_the_runs():
    kept = np.zeros(4, dtype=np.float32)
    model = aggregator_of(lambda base: kept).aggregate(np.zeros(4, dtype=np.float32), [])

    kept[:] = 5.0
    assert model.tolist() == [0.0] * 4
