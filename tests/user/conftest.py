"""Modules of the user's own, written for one test."""

from __future__ import annotations

import sys

import pytest

from tests.user.small import SMALL


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Put a module into the current folder; nothing of it outlives the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    (tmp_path / "small.yaml").write_text(SMALL)

    def put(text, name="least"):
        for key in set(sys.modules) - before:
            if key.partition(".")[0] == name:
                del sys.modules[key]
        (tmp_path / f"{name}.py").write_text(text)
        return tmp_path / f"{name}.py"

    yield put
    for key in set(sys.modules) - before:
        if str(getattr(sys.modules[key], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[key]
