import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetsim.cli.application import app
from fleetsim.contracts import Purpose
from fleetsim.errors import ScenarioError
from fleetsim.selector_training.record_training import (
    Collected,
    collected,
    settings_of,
    train_from_records,
)
from fleetsim.selectors.fedgcs.records import SelectionRecords
from fleetsim.selectors.learned_weights import read_weights
from fleetsim.simulate import run
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study

STUDY = """
name: records
question: Which sets gave which accuracy?
scenario: quickstart
overrides:
  fleet.size: 12
  server.cohort: 3
  stop: {rounds: 4}
  evaluate.validation_fraction: 0.1
arms:
  random: {server.selector.kind: random}
  pow-d: {server.selector.kind: power-of-choice}
seeds: [5, 6]
"""
FIXED = """
name: fixed
question: Which set is the best?
scenario: quickstart
overrides: {fleet.size: 12, server.cohort: 3, stop: {rounds: 2}, evaluate.validation_fraction: 0.1}
arms:
  first: {server.selector: {kind: fixed, clients: [4, 1, 2]}}
  second: {server.selector: {kind: fixed, clients: [7, 8, 9]}}
seeds: [5]
"""


def made(home: Path, text: str, *overrides: str):
    """Load a study and make its runs."""
    path = home / "study.yaml"
    path.write_text(text)
    study = load_study(path, overrides)
    store = RunStore(home)
    for planned in study.runs:
        run(
            planned.scenario,
            out=store.folder(planned),
            train=study.settings.train,
            workers=1,
            run_key=planned.key,
        )
    return study, store


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory):
    return made(tmp_path_factory.mktemp("home"), STUDY)


@pytest.mark.slow
def test_a_record_is_a_round_counted_by_hand(four_runs):
    study, store = four_runs

    fleets = collected(study, store)

    assert list(fleets) == list(dict.fromkeys(p.scenario.clients_hash for p in study.runs))
    assert len(fleets) == 2  # a seed, a fleet
    planned = next(each for each in study.runs if (each.arm, each.seed) == ("pow-d", 6))
    result = fleets[planned.scenario.clients_hash]
    assert result.num_by_arm == {"random": 4, "pow-d": 4}
    run_ = store.open(planned)
    assert run_ is not None
    for number, row in run_.rounds.iterrows():
        at = 4 + int(number)  # after those of random
        tasks = [
            task
            for task in run_.tasks.to_dict("records")
            if task["round"] == row["round"] and task["purpose"] == Purpose.TRAIN.value
        ]
        joules = sum(
            task[f"energy_{part}_j"]
            for task in tasks
            for part in ("compute", "receive", "transmit", "tail", "idle", "enlisted_idle")
        )
        began = min(task["dispatched_at_s"] for task in tasks)
        ended = max(task["finished_at_s"] for task in tasks)
        records = result.records
        assert sorted(records.selections[at].tolist()) == sorted(t["client"] for t in tasks)
        assert records.performance[at] == row["validation_accuracy"]
        assert records.latency_s[at] == pytest.approx(ended - began)
        assert records.energy_j[at] == pytest.approx(joules)
        # Probes cost, but are no part of a record.
        assert records.energy_j[at] == pytest.approx(row["energy_j"] - row["energy_probe_j"])
        assert row["energy_probe_j"] > 0.0


def test_the_cost_of_collecting_is_that_of_the_runs_with_their_probes(four_runs):
    study, store = four_runs
    (first, _) = collected(study, store).values()
    runs = [store.open(planned) for planned in study.runs if planned.seed == 5]
    rounds = [each.rounds for each in runs if each is not None]

    assert first.energy_j == pytest.approx(sum(each["energy_j"].sum() for each in rounds))
    assert first.virtual_s == pytest.approx(sum(each["finished_at_s"].iloc[-1] for each in rounds))


def test_arms_and_numbers_can_be_asked_for_and_what_is_missing_is_named(four_runs, tmp_path):
    study, store = four_runs
    result = collected(study, store, per_arm=3, arms=("random",))

    assert [each.num_by_arm for each in result.values()] == [{"random": 3}] * 2
    assert study.source.endswith("study.yaml")  # the study is named `records`
    command = re.escape(f"`fleetsim study run {study.source}`")
    for asked, store_, message in (
        ({"per_arm": 5}, store, "'random' has 4 records, 5 are asked for"),
        ({"arms": ("oort",)}, store, "no arm 'oort'; it has random, pow-d"),
        ({"form": "run"}, store, "needs the same clients in every round"),
        ({}, RunStore(tmp_path), f"random, seed 5 is not complete; run {command}"),
    ):
        with pytest.raises(ScenarioError, match=message):
            collected(study, store_, **asked)


@pytest.mark.slow
def test_a_record_may_be_a_whole_run_of_a_fixed_set(tmp_path):
    study, store = made(tmp_path, FIXED)

    (result,) = collected(study, store, form="run").values()

    assert [each.tolist() for each in result.records.selections] == [[4, 1, 2], [7, 8, 9]]
    runs = [store.open(planned) for planned in study.runs]
    assert result.records.energy_j.tolist() == [
        each.rounds["energy_total_j"].iloc[-1] for each in runs if each is not None
    ]


@pytest.mark.slow
def test_runs_without_validation_accuracy_are_refused(tmp_path):
    study, store = made(tmp_path, FIXED, 'overrides."evaluate.validation_fraction"=0.0')

    with pytest.raises(ScenarioError, match=r"evaluate\.validation_fraction above 0"):
        collected(study, store)


SHORT = {
    "fleet.size": 12,
    "server.cohort": 3,
    "stop.rounds": 6,
    "evaluate.validation_fraction": 0.1,
    "fleet.seed": 1,
}
SMALL = ["hidden=4", "embedding=3", "evaluator=5", "shuffles=2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A weight file that the command has made from a study that the command has run."""
    home = tmp_path_factory.mktemp("home")
    lines = "\n".join(f"  {key}: {value}" for key, value in SHORT.items())
    (home / "study.yaml").write_text(
        "name: records\nquestion: Which sets?\nscenario: quickstart\n"
        f"overrides:\n{lines}\nseeds: [5]\n"
        "arms:\n  random: {server.selector.kind: random}\n  oort: {server.selector.kind: oort}\n"
    )
    study, out = str(home / "study.yaml"), home / "weights.safetensors"
    options = [part for one in SMALL for part in ("--set", f"server.selector.{one}")]
    for words in (
        ["study", "run", study, "--home", str(home), "--workers", "1"],
        [
            *("selector", "train", "fedgcs", "--records", study, "--home", str(home)),
            *("--out", str(out), *options),
        ],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    return out, result.output


def test_the_ranking_is_reported_and_show_prints_origin_and_costs(trained):
    path, output = trained
    assert "12 records, held-out Kendall" in output
    assert "shuffled scores" in output
    shown = CliRunner().invoke(app, ["selector", "show", str(path)])

    assert shown.exit_code == 0
    facts = read_weights(str(path)).facts
    for key in ("command", "seed", "records", "collecting_energy_j", "training_host_s"):
        (value,) = (facts[name] for name in facts if name.endswith(f"/{key}"))
        assert f"{key}: {value}" in shown.output


def test_too_few_records_are_refused_in_one_line(tmp_path):
    fleets = {
        "aa": Collected(SelectionRecords.of([[0, 1]], [0.1], [1.0], [1.0]), {"random": 1}, 1, 1, 1)
    }

    with pytest.raises(ScenarioError, match=r"two records or more.*collect more"):
        train_from_records(
            fleets, settings_of([]), num_clients=4, seed=3, out=tmp_path / "w", command="train"
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fedgcs", "--out", "w"], "give --records"),
        (["favor", "--out", "w"], "give --scenario"),
        (["favor", "--out", "w", "--scenario", "quickstart", "--records", "quick"], "no --records"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(words, message):
    result = CliRunner().invoke(app, ["selector", "train", *words])

    assert result.exit_code == 2
    assert message in result.output
