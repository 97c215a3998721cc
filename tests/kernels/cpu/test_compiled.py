"""Compiled functions are kept on disk where that is possible, and computed the same elsewhere."""

import runpy
from pathlib import Path

import numpy as np
import pytest

TEXT = """
from fleetsim.kernels.cpu.compiled import compiled

@compiled
def doubled(values):
    for at in range(len(values)):
        values[at] *= 2.0
"""


def test_a_function_without_a_file_is_compiled_without_a_cache():
    space: dict[str, object] = {}
    exec(TEXT, space)  # such a function has no file
    values = np.array([1.0, 2.5])
    space["doubled"](values)  # type: ignore[operator]

    assert values.tolist() == [2.0, 5.0]


def test_code_is_compiled_once_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (tmp_path / "own.py").write_text(TEXT)
    hits = []
    for _ in range(2):
        doubled = runpy.run_path(str(tmp_path / "own.py"))["doubled"]
        doubled(np.zeros(1))
        hits.append(sum(doubled.stats.cache_hits.values()))

    assert hits == [0, 1]
