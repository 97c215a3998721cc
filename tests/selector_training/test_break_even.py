import math

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fleetsim.cli import app
from fleetsim.errors import DataError, ScenarioError
from fleetsim.selector_training.break_even import break_even, facts_by_clients, spent_before_use
from fleetsim.selector_training.weight_writing import existing_file, write_weights
from fleetsim.selectors.learned_weights import WeightFile

COLUMNS = ["condition", "arm", "seed", "target", "metric", "cost", "is_reached"]


def table(*rows: tuple[str, int, float, float, float, bool]) -> pd.DataFrame:
    """Costs of runs: arm, seed, rounds, seconds, joules, and whether the target was reached."""
    return pd.DataFrame(
        [
            ("", arm, seed, "80 %", metric, cost, reached)
            for arm, seed, rounds, seconds, joules, reached in rows
            for metric, cost in (("rounds", rounds), ("seconds", seconds), ("joules", joules))
        ],
        columns=COLUMNS,
    )


RANDOM = [("random", 1, 20.0, 100.0, 50.0, True), ("random", 2, 20.0, 120.0, 70.0, True)]


def file_of(**facts: str) -> WeightFile:
    """Weights of the fleet `aa`, with facts about them."""
    named = {f"aa/{key}": value for key, value in facts.items()}
    return WeightFile("fedgcs", {"aa": {"bias": np.zeros(1)}}, named)


RECORDS = file_of(
    collecting_virtual_s="1000.0", collecting_energy_j="400.0", training_host_s="30.0"
)


def compared(*arm: tuple[str, int, float, float, float, bool]):
    """Break-even of `fedgcs` in seconds and joules, without the power of a server."""
    spent = spent_before_use(RECORDS, server_w=0.0)
    return break_even(table(*RANDOM, *arm), spent, arm="fedgcs", baseline="random")


def test_the_cost_is_that_of_the_runs_and_of_a_fit_to_records():
    episodes = file_of(training_virtual_s="70.0", training_energy_j="9.0", training_host_s="500.0")

    assert spent_before_use(RECORDS, server_w=50.0) == (1, 1000.0, 400.0, 30.0, 1500.0)
    assert spent_before_use(episodes, server_w=50.0) == (1, 70.0, 9.0, 0.0, 0.0)
    with pytest.raises(ScenarioError, match="does not say what it cost"):
        spent_before_use(file_of(seed="3"), server_w=1.0)


def test_fleets_are_averaged():
    facts = {
        f"{clients}/{key}": repr(value)
        for clients, values in (("aa", (100.0, 40.0, 3.0)), ("bb", (300.0, 60.0, 5.0)))
        for key, value in zip(
            ("collecting_virtual_s", "collecting_energy_j", "training_host_s"), values, strict=True
        )
    }
    file = WeightFile("fedgcs", {"aa": {"b": np.zeros(1)}, "bb": {"b": np.zeros(1)}}, facts)

    assert spent_before_use(file, server_w=1.0) == (2, 200.0, 50.0, 4.0, 4.0)
    assert facts_by_clients(file)["bb"]["training_host_s"] == "5.0"


def test_runs_and_rounds_to_break_even_by_hand():
    """Savings of 20 and 40 s, and of 10 and 30 J, on average 30 s and 20 J; 12 rounds a run."""
    seconds, joules = compared(
        ("fedgcs", 1, 10.0, 80.0, 40.0, True), ("fedgcs", 2, 14.0, 80.0, 40.0, True)
    )

    # (1000 + 30) s of runs and fit / 30 s; 400 J / 20 J.
    assert seconds.runs == pytest.approx(1030.0 / 30.0)
    assert seconds.rounds == pytest.approx(12.0 * 1030.0 / 30.0)
    assert (joules.runs, joules.rounds) == (pytest.approx(20.0), pytest.approx(240.0))
    # t(1; .975) = 12.706; the standard error of 20 and 40 is 10.
    assert (seconds.low, seconds.high) == pytest.approx((30.0 - 127.062, 30.0 + 127.062), abs=0.01)


def test_what_saves_nothing_never_pays():
    seconds, joules = compared(
        ("fedgcs", 1, 10.0, 101.0, 50.0, True), ("fedgcs", 2, 14.0, 121.0, 70.0, True)
    )

    assert (seconds.saving, seconds.runs, seconds.rounds) == (-1.0, None, None)
    assert (joules.saving, joules.runs) == (0.0, None)


def test_seeds_without_the_target_do_not_count():
    seconds, _ = compared(
        ("fedgcs", 1, 10.0, 80.0, 40.0, True), ("fedgcs", 2, 50.0, 999.0, 999.0, False)
    )

    assert (seconds.num_seeds, seconds.saving) == (1, 20.0)
    assert math.isnan(seconds.low)


def test_an_arm_without_complete_runs_is_refused_with_those_that_have_some():
    with pytest.raises(
        ScenarioError, match=r"no complete run of 'fedgcs'; .* of random; `fleetsim study run`"
    ):
        compared()


def test_the_command_says_which_arms_the_study_has_and_how_runs_are_made(tmp_path):
    given = ["selector", "break-even", "fedgcs-quick", "--home", str(tmp_path), "--study"]

    misspelt = CliRunner().invoke(app, [*given, "learning-selectors-quick", "--arm", "fedgsc"])
    missing = CliRunner().invoke(app, [*given, "learning-selectors-quick", "--arm", "fedgcs"])

    assert "has no arm 'fedgsc'; it has random, " in str(misspelt.exception)
    assert "did you mean 'fedgcs'?" in str(misspelt.exception)
    assert "has no complete run of 'fedgcs'; complete are runs of no arm" in str(missing.exception)


def test_weights_of_further_fleets_are_added_and_those_of_the_same_replaced(tmp_path):
    path = tmp_path / "new" / "weights.safetensors"
    for clients, value in (("aa", 1.0), ("bb", 2.0), ("aa", 3.0)):
        write_weights(path, "favor", {clients: {"bias": np.array([value])}}, {"seed": str(value)})

    file = existing_file(path, "favor")

    assert file is not None
    assert {key: state["bias"].tolist() for key, state in file.weights.items()} == {
        "aa": [3.0],
        "bb": [2.0],
    }
    assert file.facts == {"aa/seed": "3.0", "bb/seed": "2.0"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WeightFile("favor", {}).encoded(), r"has weights of 'favor', not of 'fedgcs'.*--out"),
        (b"important", r"kept\.file: is no weight file.*--out"),
    ],
)
def test_a_file_of_something_else_is_not_touched(content, message, tmp_path):
    path = tmp_path / "kept.file"
    path.write_bytes(content)

    with pytest.raises((DataError, ScenarioError), match=message):
        write_weights(path, "fedgcs", {"aa": {"bias": np.zeros(1)}}, {})
    assert path.read_bytes() == content
