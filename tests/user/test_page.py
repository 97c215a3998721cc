"""Examples of docs/plugins.md, executed; each is at most fifteen lines of the user's own."""

import doctest
import re
from pathlib import Path

import pytest

from fleetsim.user import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


@pytest.mark.slow
def test_the_examples_of_the_page_are_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    result = doctest.testfile(str(PAGE), module_relative=False)

    assert result.attempted >= 15
    assert result.failed == 0
    assert list(tmp_path.iterdir()) == []


def test_every_example_is_short():
    examples = doctest.DocTestParser().get_examples(PAGE.read_text("utf-8"))

    own = [one.source for one in examples if one.source.startswith(("class", "def"))]
    assert len(own) >= 5
    assert max(source.count("\n") for source in own) <= 15


def test_the_page_names_every_kind_with_its_protocol_and_place():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)

    named = {kind: (words, place) for kind, words, place in rows}
    assert set(named) == set(KINDS)
    for name, kind in KINDS.items():
        words, place = named[name]
        assert f"fleetsim.contracts.{kind.protocol.__name__}" in words
        assert kind.key_path is None or place == f"`{'.'.join(map(str, kind.key_path))}`"
