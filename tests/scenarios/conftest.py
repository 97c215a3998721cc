from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def shared_data(monkeypatch):
    """Let scenarios find the real data sets beside the checkout, where there are any."""
    shared = Path(__file__).resolve().parents[3] / "shared"
    if not os.environ.get("FLEETSIM_DATA") and shared.is_dir():
        monkeypatch.setenv("FLEETSIM_DATA", str(shared))
