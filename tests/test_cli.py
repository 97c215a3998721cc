"""The command line as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fleetsim import __version__, bundled
from fleetsim.cli import app
from fleetsim.contracts import Progress
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.progress import duration_text, fraction_done, progress_text, watch
from fleetsim.scenario import SynchronousServerSettings, load

COMMANDS = {
    ("run",): {
        *("--seed", "--set", "--out", "--torch-device", "--workers", "--plugin"),
        *("--no-train", "--resume", "--numerics", "--allow-other-platform"),
    },
    ("validate",): {"--seed", "--set", "--plugin"},
    ("validate-world",): {"--out"},
    ("report",): {"--prices"},
    ("compare",): {
        "--target",
        "--out",
        "--different-worlds",
        "--prices",
        "--budget-s",
        "--budget-j",
    },
    ("list",): set(),
    ("schema",): {"--plugin"},
    ("data", "fetch"): set(),
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
        ("devices", ["pixel-6", "jetson-nano-cpu", "t2.xlarge"]),
        ("selectors", ["random", "round-robin", "fixed", "power-of-choice", "oort"]),
        ("selectors", ["afl", "divfl", "fedcor", "pyramidfl", "ucb", "quick-init-ucb", "bp-ucb"]),
        ("datasets", ["digits", "mnist", "fashion-mnist", "synthetic", "blank"]),
        ("models", ["logistic", "2nn", "fedgra-cnn", "lenet5"]),
        ("traces", ["people-week", "livelab-phones", "commute-5g"]),
        ("scenarios", bundled.names("scenarios")),
    ],
)
def test_everything_that_a_scenario_can_name_is_listed(what, names):
    listed = called("list", what).stdout

    for name in names:
        assert f"\n{name} " in listed


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


def test_light_commands_do_not_wait_for_torch_or_pandas():
    code = (
        "import sys, fleetsim, fleetsim.cli, fleetsim.scenario;"
        "fleetsim.scenario.load('quickstart');"
        "print(sorted({'torch', 'simpy', 'sklearn'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "torch" not in result.stdout
    assert "sklearn" not in result.stdout


def test_nothing_is_shown_where_nobody_watches(capsys):
    with watch(load("quickstart"), Console(force_terminal=False)) as on_progress:
        assert on_progress is None

    assert capsys.readouterr().out == ""


def test_a_person_sees_round_time_accuracy_and_joules():
    text = progress_text(Progress(7, 3725.0, 0.8125, 12_345.0, 9, 13))

    assert text == "round 7  01:02:05  accuracy 0.812  12.3 kJ  9/13 delivered"


def test_a_run_is_as_far_as_its_nearest_stop_rule():
    stop = StopSettings(rounds=10, time_s=1000.0, energy_j=100.0, accuracy=0.9)

    assert fraction_done(stop, Progress(2, 50.0, 0.45, 10.0, 1, 1)) == 0.5
    assert fraction_done(stop, Progress(2, 900.0, None, 10.0, 1, 1)) == 0.9
    assert fraction_done(stop, Progress(30, 0.0, None, 0.0, 1, 1)) == 1.0


def test_long_virtual_times_are_shown_in_days():
    assert duration_text(59.9) == "00:00:59"
    assert duration_text(86_400.0) == "1d 00:00:00"
