"""The command line as a user meets it."""

import json
import tomllib
from importlib import resources
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fleetsim import __version__, bundled
from fleetsim.cli import app
from fleetsim.scenario import SynchronousServerSettings, load, outline
from fleetsim.selectors import KINDS
from fleetsim.studies.page.study_tables import METRICS
from tests.documented_names import unknown_names


def called(*words: str):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "NO_COLOR": "1"})


def paths(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from paths(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(paths(get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_ends_with_an_example(path):
    result = called(*path, "--help")

    assert result.exit_code == 0
    _, begin, example = result.stdout.partition("Example: fleetsim ")
    assert begin
    assert example.startswith(" ".join(path))
    assert unknown_names(begin + " ".join(example.split())) == []


def test_every_parameter_has_its_help_and_every_row_of_the_table_its_parameter():
    tables = tomllib.loads((resources.files("fleetsim.cli") / "options.toml").read_text("utf-8"))
    used = set()
    for path in COMMANDS:
        command: Any = get_command(app)
        for name in path:
            command = command.commands[name]
        for each in command.params:
            name, owners = each.name.strip("_"), (" ".join(path), path[0], "shared")
            row = next(((at, name) for at in owners if name in tables.get(at, ())), None)
            used |= {row}
            # An older Typer with a newer Click has no help at its arguments.
            assert each.help or (row is not None and tables[row[0]][name]["help"]), each.name

    assert {(at, name) for at, rows in tables.items() for name in rows} == used - {None}


def test_the_version_is_that_of_the_package():
    assert called("--version").stdout == f"fleetsim {__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("devices", [name for name in bundled.names("devices") if "/" not in name]),
        ("traces", bundled.names("traces")),
        ("scenarios", bundled.names("scenarios")),
        ("studies", bundled.names("studies")),
        ("selectors", KINDS),
        ("datasets", ["digits", "mnist", "fashion-mnist", "synthetic", "blank"]),
        ("models", ["logistic", "2nn", "fedgra-cnn", "lenet5"]),
        ("radios", bundled.names("radios")),
        ("weight", bundled.names("weights")),
        ("price", bundled.names("prices")),
        ("partition", ["iid", "dirichlet", "client-dirichlet"]),
        ("algorithms", ["scaffold", "ditto"]),
        ("aggregators", ["fedavg", "fedbuff"]),
        ("channel", ["fading", "constant", "trace"]),
        ("metrics", METRICS),
    ],
)
def test_everything_that_a_scenario_can_name_is_listed_for_people_and_for_scripts(what, names):
    listed = called("list", what).stdout
    records = json.loads(called("list", what, "--json").stdout)

    assert [name for name in names if f"\n{name} " not in listed] == []
    assert {*names} <= {next(iter(record.values())) for record in records}
    assert called("list", "devcies").exit_code == 2


def test_validate_shows_the_whole_scenario_with_every_default_if_asked(tmp_path):
    changes = ("--set", "server.cohort=5", "--seed", "9")
    shown = called("validate", "quickstart", *changes, "--full").stdout
    path = tmp_path / "resolved.yaml"
    path.write_text(shown, encoding="utf-8")

    resolved = load(path)

    assert isinstance(resolved.server, SynchronousServerSettings)
    assert (resolved.server.cohort, resolved.seed) == (5, 9)
    assert "give_up_s:" in shown


def test_validate_says_that_it_is_valid_and_what_it_asks_for():
    shown = called("validate", "quickstart", "--set", "server.deadline_s=7").stdout.splitlines()

    assert shown[0] == "valid: quickstart"
    parts = dict(line.split(None, 1) for line in shown[1:])
    assert parts == outline(load("quickstart", ["server.deadline_s=7"]))
    assert "deadline    7 s" in shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run quickstart-f", ["quickstart-fedbuff"]),
        ("study run selectors-on", ["selectors-on-phones"]),
        ("show radio lte", ["lte", "lte-2012"]),
        ("copy device pixel-6", ["pixel-6"]),
        ("data fetch fashion", ["fashion-mnist"]),
        ("run no-such", []),
    ],
)
def test_the_shell_completes_bundled_names(words, expected):
    given = {
        "_FLEETSIM_COMPLETE": "complete_bash",
        "COMP_WORDS": f"fleetsim {words}",
        "COMP_CWORD": str(len(words.split())),
    }

    ended = CliRunner().invoke(app, [], prog_name="fleetsim", env=given)

    assert ended.stdout.split() == expected


def test_data_sets_are_listed_with_their_sizes_and_places(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FLEETSIM_DATA", raising=False)
    home = tmp_path / "fleetsim" / "mnist"
    home.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (home / f"{name}-ubyte").write_bytes(b"")  # found, and not verified

    rows = {line.split()[0]: line for line in called("data", "fetch", "--list").stdout.splitlines()}

    assert rows["mnist"].endswith("by fetch  " + str(home))
    assert " by hand " in rows["celeba"]
    assert rows["cifar10"].split()[-1] == "-"
    assert " 170.1 " in rows["cifar10"]  # 170,498,071 bytes, as its page says


def test_the_schema_knows_every_key_with_a_description_and_that_of_studies_is_another_one():
    schema, study = (json.loads(called("schema", *what).stdout) for what in ((), ("study",)))
    fleet = schema["$defs"]["FleetSettings"]["properties"]

    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) >= {"name", "seed", "task", "fleet", "server", "stop"}
    assert fleet["size"]["description"] == "Number of clients."
    assert study["title"] == "fleetsim study"
    assert set(study["properties"]) >= {"scenario", "arms", "vary", "seeds"}
    assert called("schema", "study", "--plugin", "least:LeastAsked").exit_code == 2
