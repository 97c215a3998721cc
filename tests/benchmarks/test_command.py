"""Command line of the benchmarks, without any measurement."""

import dataclasses
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import measure, runs
from benchmarks.contestants import CONTESTANTS
from benchmarks.results import Store
from benchmarks.works import WORKS


@pytest.fixture
def run_command(monkeypatch, tmp_path):
    monkeypatch.setenv("FLEETSIM_BENCH", str(tmp_path))

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        command.main()

    return run


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
