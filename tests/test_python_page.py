"""Examples of docs/python.md, executed."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


def test_the_examples_of_the_page_are_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    result = doctest.testfile(str(PAGE), module_relative=False)

    assert result.attempted >= 15
    assert result.failed == 0
    assert list(tmp_path.iterdir()) == []
