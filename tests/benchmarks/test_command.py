"""Command line of the benchmarks, without any measurement."""

import dataclasses
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import environments, measure, runs
from benchmarks.contestants import CONTESTANTS, PEERS
from benchmarks.page import render
from benchmarks.results import Result, Store
from benchmarks.works import WORKS
from tests.benchmarks.test_figures import OURS, PEER


@pytest.fixture
def run_command(monkeypatch, tmp_path):
    monkeypatch.setenv("FLEETSIM_BENCH", str(tmp_path))

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        command.main()

    return run


def test_render_writes_the_page_of_what_was_measured(run_command, tmp_path):
    store = Store(tmp_path / "results")
    store.keep(OURS)
    store.keep(PEER)
    run_command("--render", "--page", str(tmp_path / "page.md"))

    assert (tmp_path / "page.md").read_text(encoding="utf-8") == render([OURS, PEER], {})


def test_render_without_results_says_where_it_looked(run_command, tmp_path):
    with pytest.raises(SystemExit, match=f"no results in {tmp_path / 'results'}"):
        run_command("--render")


@pytest.mark.parametrize("arguments", [["--works", "w7"], ["--repeats", "0"], ["--rounds", "x"]])
def test_what_makes_no_sense_is_refused(run_command, arguments):
    with pytest.raises(SystemExit) as fault:
        run_command(*arguments)

    assert fault.value.code == 2


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_is_in_the_results_with_what_pip_said(
    run_command, monkeypatch, tmp_path
):
    def fail(*_: object) -> None:
        raise environments.InstallError("no such release")

    monkeypatch.setattr(environments, "ensure", fail)
    monkeypatch.setattr(measure, "_peaks", dict)
    work = dataclasses.replace(WORKS[2], rounds=1)
    monkeypatch.setattr(command, "WORKS", (work,))
    page = tmp_path / "page.md"
    run_command("--works", "w3", "--repeats", "1", "--contestants", "flgo", "--page", str(page))

    assert Store(tmp_path / "results").all() == [
        Result("w3", "flgo", 1, 1, error="not installed: no such release")
    ]
    assert "* **FLGo** failed: not installed: no such release" in page.read_text(encoding="utf-8")


def test_an_environment_that_is_complete_is_taken_as_it_is(tmp_path):
    peer = PEERS[0]
    (tmp_path / peer.name).mkdir()
    (tmp_path / peer.name / "fleetsim-benchmark.txt").write_text(
        f"# torch=={environments.own_torch()} {peer.requirement}\nflwr==1.41.0\nray==2.55.1\n",
        encoding="utf-8",
    )

    assert environments.ensure(peer, tmp_path) == tmp_path / peer.name / "bin" / "python"
    assert environments.versions(peer, tmp_path) == {"flwr": "1.41.0", "ray": "2.55.1"}


def test_an_adapter_that_dies_is_told_by_its_last_words(tmp_path):
    contestant = next(one for one in CONTESTANTS if one.name == "fedlab")
    order = runs.RunRequest(WORKS[0], "fedlab", 1, 3, timeout_s=60.0)
    result = runs.run_peer(
        order,
        dataclasses.replace(contestant, module="benchmarks.peers.nobody"),
        {},
        python=Path(sys.executable),
        cores=1,
        store=Store(tmp_path),
    )

    assert result.error is not None
    assert result.error.startswith("exit code 1: ")
    assert result.error.endswith("No module named benchmarks.peers.nobody")


def test_data_that_are_not_there_are_told_before_anything_is_measured(
    run_command, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(measure, "_peaks", dict)
    with pytest.raises(SystemExit) as fault:
        run_command("--works", "w4", "--cifar10", str(tmp_path), "--contestants", "fleetsim")

    assert fault.value.code == 2
    assert "error: " in capsys.readouterr().err
    assert Store(tmp_path / "results").all() == []
