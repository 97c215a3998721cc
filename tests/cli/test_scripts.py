"""Commands in scripts: `--json`, `--quiet`, `--unset`, `show` of every name, older spellings."""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fleetsim
from fleetsim import catalogue
from fleetsim.cli import terminal
from scripts.command_server import served
from tests.report.made_runs import MadeUp, make_run

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
SHORT = ("--no-train", "--no-report", "--set", "stop.rounds=2", "--workers", "1")
PLUG_IN = """
from typing import Literal
import fleetsim
from fleetsim.settings import Settings

class First(fleetsim.Selector):
    class Settings(Settings):
        kind: Literal["first"] = "first"
        share: float = 0.25
    def __init__(self, settings): self.settings = settings
    def select(self, view): return view.candidates[: view.wanted]
"""
STUDY = """
name: ours
scenario: quickstart
train: false
overrides: {stop.rounds: 2}
seeds: [1, 2]
arms: {random: {}, first: {server.selector.kind: first}}
"""


def documented(command: str) -> list[str]:
    """Keys of a command's JSON as its row of the page names them, without those of inner lists."""
    (row,) = re.findall(rf"^\| [^|]*`{command}`[^|]* \| (.*) \|$", PAGE, re.MULTILINE)
    return re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row.partition(";")[0]))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_number_that_is_not_finite_is_null_in_json(capsys):
    data = {"a": float("nan"), "b": [np.float32("inf"), np.int64(3)], "c": Path("x"), 1: None}
    terminal.output_json(data)

    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 3], "c": "x", "1": None}


def test_the_json_of_every_command_has_its_documented_keys(here, command, without_figures):
    make_run(here / "one", MadeUp(num_rounds=3))
    make_run(here / "two", MadeUp(num_rounds=2, seed=2))
    calls = {
        "run": ("run", "quickstart", *SHORT, "--out", "run"),
        "compare": ("compare", "one", "two", "--different-worlds", "--target", "0.123"),
        "report": ("report", "one", "--target", "0.123"),
        "validate": ("validate", "quickstart"),
        "show": ("show", "selectors", "oort"),
        "explain": ("explain", "server.deadline_s"),
    }
    ended = {name: command(*words, "--json") for name, words in calls.items()}
    data = {name: json.loads(each.out) for name, each in ended.items()}

    assert [name for name, each in ended.items() if each.code] == []
    for name in ("run", "compare", "validate", "show"):
        assert sorted(data[name]) == sorted(documented(name)), name
    assert sorted(data["explain"][0]) == sorted(documented("explain"))
    assert sorted(data["report"][0]) == sorted(documented("run"))
    of_one, _ = data["compare"]["runs"]
    assert sorted({*of_one, "report"} - {"label"}) == sorted(documented("run"))
    run = fleetsim.open_run("one")
    (target,) = of_one["targets"]
    assert target == {
        "accuracy": 0.123,
        "rounds": run.rounds_to_accuracy(0.123),
        "time_s": run.time_to_accuracy(0.123),
        "energy_j": run.energy_to_accuracy(0.123),
    }
    assert data["run"]["digest"] == fleetsim.open_run("run").manifest.digest


def test_a_quiet_command_prints_what_it_wrote_and_still_warns(here, command, without_figures):
    late = ("--set", "server.deadline_s=0.001")
    quiet = command("run", "quickstart", *SHORT, *late, "--out", "run", "--quiet")
    checked = command("validate", "quickstart", *late, "-q")
    wrong = command("validate", "quickstart", "--set", "server.cohort=0", "--json")

    assert (quiet.code, quiet.out) == (0, "run\n")
    assert (checked.code, checked.out) == (0, "")
    for ended in (quiet, checked):
        assert ended.err.startswith("warning: server.deadline_s = 0.001: no client can meet it")
    assert "warning: Nothing was delivered" in quiet.err
    assert "note: " not in quiet.err
    assert command("compare", "run", "--quiet").out == "comparison/comparison.html\n"
    refused = json.loads(wrong.out)
    assert (wrong.code, refused["valid"]) == (2, False)
    assert [f"error: {line}" for line in refused["errors"]] == wrong.err.splitlines()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("--unset server.over_commit", "cohort 8, over_commit 1, "),  # the default
        ("--set server.cohort=5 --unset server.cohort", "cohort 5, over"),  # removed first
        ("--set server.mode=buffered --set server.concurrency=9 --set server.buffer_size=4"
         " --unset server.cohort --unset server.over_commit", "concurrency 9"),
        ("--unset server.over_comit", "quickstart.yaml; did you mean 'over_commit'?"),
        ("--unset server.window_s", "so its default holds already; leave --unset out"),
        ("--unset server.cohort.x", "which has no keys"),
        ("--unset server.", "is no key path"),
    ],
)  # fmt: skip
def test_a_key_of_the_file_is_removed_so_that_its_default_holds(changes, words, command):
    ended = command("validate", "quickstart", *changes.split())

    assert words in (ended.err if ended.code else ended.out)
    assert (ended.code, len(ended.err.splitlines())) in ((0, 0), (2, 1))


@pytest.mark.slow
@pytest.mark.parametrize("subject", catalogue.SUBJECTS)
def test_every_name_that_is_listed_can_be_shown(subject, command):
    rows = json.loads(command("list", subject, "--json").out)
    names = [next(iter(row.values())) for row in rows]
    for name in names:
        ended = command("show", subject, name, "--json")
        shown = json.loads(ended.out)
        assert (ended.code, shown["kind"], shown["name"]) == (0, subject, name)
        assert shown["description"] or shown["data"]
        assert sorted(shown) == sorted(documented("show"))
    people = command("show", subject, names[0])
    assert (people.code, people.err) == (0, "")
    assert people.out.strip()


def test_a_part_is_shown_with_its_settings_defaults_and_their_meaning(command):
    shown = json.loads(command("show", "partition", "dirichlet", "--json").out)
    text = command("show", "partitions", "dirichlet").out
    alpha = next(each for each in shown["settings"] if each["key"] == "task.partition.alpha")

    assert shown["key"] == "task.partition"
    assert alpha["description"] in " ".join(text.split())
    assert "task.partition.kind: dirichlet" in text


@pytest.mark.slow
def test_a_study_is_reported_without_its_plug_in(here, command, monkeypatch, without_figures):
    Path("ours.py").write_text(PLUG_IN)
    Path("ours.yaml").write_text(STUDY)
    with ThreadPoolExecutor(1) as executor:
        fleetsim.study("ours.yaml", plugin="ours:First", home="home", executor=executor)
    known = command("study", "report", "ours.yaml", "--plugin", "ours:First", "--home", "home")
    Path("ours.py").unlink()
    monkeypatch.delitem(sys.modules, "ours")

    bare = command("study", "report", "ours.yaml", "--home", "home")
    status = command("study", "status", "ours.yaml", "--home", "home", "--json")
    report = command("study", "report", "ours.yaml", "--home", "home", "--json")
    other = command("study", "status", "ours.yaml", "--home", "home", "--set", "arms.more={}")

    assert (known.code, bare.code, bare.out) == (0, 0, known.out)
    assert bare.err.startswith("note: the study is as its last `study run` had it: ")
    assert sorted(json.loads(status.out)) == sorted(documented("study status"))
    assert [run["status"] for run in json.loads(status.out)["runs"]] == ["done"] * 4
    assert sorted(json.loads(report.out)) == sorted(documented("study report"))
    assert (other.code, other.out) == (2, "")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")
def test_the_script_of_the_page_runs_reads_and_compares(here, monkeypatch):
    (script,) = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("PATH", str(here), prepend=os.pathsep)
    with served(here):
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)

    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["random", "oort"]
    assert all(float(number) > 0.0 for row in rows for number in row[1:])
    assert [line for line in done.stderr.splitlines() if not line.startswith("note: ")] == []
