from __future__ import annotations

import sys

import pytest

from fleetsim import cli
from tests.bad_input.good import tree


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLEETSIM_DATA", raising=False)
    return tmp_path


@pytest.fixture
def refused(here, monkeypatch, capsys):
    """Call the command line; it must refuse in one line, which is returned, and write nothing."""

    def call(*words):
        before = tree(here)
        monkeypatch.setattr(sys, "argv", ["fleetsim", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        shown = capsys.readouterr()

        assert end.value.code == 2
        assert "Traceback" not in shown.out + shown.err
        lines = shown.err.splitlines()
        assert len(lines) == 1, shown.err
        assert lines[0].startswith("error: ")
        assert tree(here) == before
        return lines[0].removeprefix("error: ")

    return call
