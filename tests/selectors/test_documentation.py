"""docs/selectors.md keeps up with the code."""

import doctest
import json
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from fleetsim import contracts
from fleetsim.selectors import SelectorSettings
from fleetsim.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "selectors.md"
WORDS = DOCS / "decisions" / "0012-words-for-selectors.md"
UNION = get_args(get_args(SelectorSettings)[0])


def default_text(field) -> str:
    if field.is_required():
        return "required"
    if isinstance(field.default, Settings):
        keys = ", ".join(f"{key}: {value}" for key, value in field.default)
        return f"`{{{keys}}}`"
    text = field.default if isinstance(field.default, str) else json.dumps(field.default)
    return f"`{text}`"


@pytest.mark.parametrize("settings", UNION, ids=lambda cls: cls.__name__)
def test_every_setting_is_documented_with_its_default(settings):
    kind = settings.model_fields["kind"].default
    sections = dict(re.findall(r"^## `(.+?)`\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))
    rows = re.findall(r"^\| `(\w+)` \| (`[^`]*`|\S+) \|", sections[kind], re.M)
    expected = {
        name: default_text(field) for name, field in settings.model_fields.items() if name != "kind"
    }

    assert dict(rows) == expected


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
