"""The command line as a user meets it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fleetsim import __version__, bundled
from fleetsim.cli import app
from fleetsim.scenario import SynchronousServerSettings, load
from fleetsim.selectors import KINDS

COMMANDS = {
    ("run",): {
        *("--seed", "--set", "--out", "--torch-device", "--workers", "--plugin"),
        *("--no-report", "--no-train", "--resume", "--numerics", "--allow-other-platform"),
    },
    ("validate",): {"--seed", "--set", "--plugin"},
    ("validate-world",): {"--out"},
    ("report",): {"--format", "--prices", "--target"},
    ("compare",): {
        "--target",
        "--out",
        "--different-worlds",
        "--format",
        "--prices",
        "--budget-s",
        "--budget-j",
    },
    ("timeline",): {"--out", "--clients", "--rounds"},
    ("list",): set(),
    ("schema",): {"--plugin"},
    ("data", "fetch"): set(),
    ("study", "run"): {"--set", "--home", "--jobs", "--dask", "--plugin", "--run-reports"},
    ("study", "report"): {"--set", "--home", "--out", "--format", "--latex", "--plugin"},
    ("study", "status"): {"--set", "--home", "--plugin"},
    ("selector", "train"): {
        *("--out", "--scenario", "--episodes", "--first-seed", "--set", "--workers"),
        *("--records", "--form", "--arm", "--per-arm", "--seed", "--home"),
    },
    ("selector", "show"): set(),
    ("selector", "break-even"): {"--study", "--arm", "--baseline", "--server-w", "--home"},
    ("trace", "import"): {"--unknown", "--online", "--utc-offset-h", "--whole-days", "--app"},
}


def called(*words: str):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "NO_COLOR": "1"})


def commands(group=None, path=()):
    from typer.main import get_command  # noqa: PLC0415

    group = group or get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_the_commands_and_their_options_are_these_and_no_others():
    found = {
        path: {
            option
            for parameter in command.params
            for option in parameter.opts
            if option.startswith("--")
        }
        - {"--help"}
        for path, command in commands()
    }

    assert found == COMMANDS


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_ends_with_an_example(path):
    result = called(*path, "--help")

    assert result.exit_code == 0
    assert f"Example: fleetsim {' '.join(path)}" in result.stdout


def test_the_version_is_that_of_the_package():
    assert called("--version").stdout == f"fleetsim {__version__}\n"


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
    ],
)
def test_everything_that_a_scenario_can_name_is_listed(what, names):
    listed = called("list", what).stdout

    assert [name for name in names if f"\n{name} " not in listed] == []


def test_validate_shows_the_scenario_with_every_default_written_out(tmp_path):
    shown = called("validate", "quickstart", "--set", "server.cohort=5", "--seed", "9").stdout
    path = tmp_path / "resolved.yaml"
    path.write_text(shown, encoding="utf-8")

    resolved = load(path)

    assert isinstance(resolved.server, SynchronousServerSettings)
    assert (resolved.server.cohort, resolved.seed) == (5, 9)
    assert "give_up_s:" in shown


def test_the_schema_knows_every_key_with_a_description():
    schema = json.loads(called("schema").stdout)
    fleet = schema["$defs"]["FleetSettings"]["properties"]

    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) >= {"name", "seed", "task", "fleet", "server", "stop"}
    assert fleet["size"]["description"] == "Number of clients."


def test_the_schema_of_studies_is_another_one_and_takes_no_plug_in():
    found = json.loads(called("schema", "study").stdout)

    assert found["title"] == "fleetsim study"
    assert {"scenario", "arms", "vary", "seeds"} <= set(found["properties"])
    assert called("schema", "study", "--plugin", "least:LeastAsked").exit_code == 2
    assert json.loads(called("schema", "scenario").stdout) == json.loads(called("schema").stdout)
