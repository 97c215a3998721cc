"""Command line of the benchmarks, without any measurement."""

import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import measure
from benchmarks.results import Store


@pytest.fixture
def run_command(monkeypatch, tmp_path):
    monkeypatch.setenv("FLEETSIM_BENCH", str(tmp_path))

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        command.main()

    return run


def test_data_that_are_not_there_are_told_before_anything_is_measured(
    run_command, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(measure, "_peaks", dict)
    with pytest.raises(SystemExit) as fault:
        run_command("--works", "w4", "--cifar10", str(tmp_path), "--contestants", "fleetsim")

    assert fault.value.code == 2
    assert "error: " in capsys.readouterr().err
    assert Store(tmp_path / "results").all() == []
