import pytest
from typer.testing import CliRunner

from fleetsim.cli.application import app
from fleetsim.errors import ScenarioError
from fleetsim.selector_training.record_training import Collected, settings_of, train_from_records
from fleetsim.selectors.fedgcs.records import SelectionRecords
from fleetsim.selectors.learned_weights import read_weights

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
