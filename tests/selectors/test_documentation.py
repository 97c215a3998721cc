"""docs/selectors.md keeps up with the code."""

import doctest
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from fleetsim import contracts

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "selectors.md"
WORDS = DOCS / "decisions" / "0012-words-for-selectors.md"


def test_the_words_that_the_pages_name_are_in_the_contract():
    pages = PAGE.read_text() + WORDS.read_text()
    named = re.findall(r"\b([A-Z]\w+)\.([a-z]\w+)", pages)
    words = {(owner, word) for owner, word in named if hasattr(contracts, owner)}

    assert len(words) > 10
    for owner, word in sorted(words):
        members = set(get_type_hints(getattr(contracts, owner))) | set(
            dir(getattr(contracts, owner))
        )
        assert word in members, f"{owner}.{word}"


@pytest.mark.slow
def test_the_example_selector_runs():
    result = doctest.testfile(str(PAGE), module_relative=False)

    assert result.attempted > 5
    assert result.failed == 0
