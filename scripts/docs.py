#!/usr/bin/env python3
"""Write the tables of docs that follow from code, each between two marks.

    scripts/docs.py

What stands outside of the marks is written by hand and stays as it is. A selector without a
section in docs/selectors.md gets one. `tests/test_generated_docs.py` compares the pages with the
code.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cells import table
from fleetsim.selectors import KINDS, SelectorSettings
from fleetsim.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
AFTER_SELECTORS = "## What the papers leave open\n"
"""Heading before which the section of a new selector is put."""


def selectors(page: str) -> str:
    """Return docs/selectors.md with its tables of kinds and settings.

    Raises:
        ValueError: a mark is missing or occurs twice.
    """
    rows = [(f"`{kind}`", line.removesuffix(".")) for kind, line in KINDS.items()]
    page = with_table(page, "kinds", ("kind", "what it chooses"), rows)
    for settings in get_args(get_args(SelectorSettings)[0]):
        kind = settings.model_fields["kind"].default
        name = f"settings of {kind}"
        if marks(name)[0] not in page:
            opening = f"## `{kind}`\n\n{KINDS[kind]}\n\n{''.join(marks(name))}\n"
            page = page.replace(AFTER_SELECTORS, opening + AFTER_SELECTORS)
        page = with_table(page, name, ("setting", "default", "meaning"), settings_rows(settings))
    return page


PAGES = {ROOT / "docs" / "selectors.md": selectors}
"""Pages with generated tables, and the function that returns a page with them as they are now."""


def settings_rows(settings: type[Settings]) -> list[tuple[str, str, str]]:
    """Return name, default and meaning of all settings but `kind`."""
    return [
        (f"`{name}`", default_text(field), meaning(field))
        for name, field in settings.model_fields.items()
        if name != "kind"
    ]


def default_text(field: Any) -> str:
    """Return the default of a field as a scenario writes it."""
    if field.is_required():
        return "required"
    if isinstance(field.default, Settings):
        return f"`{{{', '.join(f'{key}: {value}' for key, value in field.default)}}}`"
    return f"`{field.default if isinstance(field.default, str) else json.dumps(field.default)}`"


def meaning(field: Any) -> str:
    """Return the description of a field, with its options."""
    text = " ".join(field.description.split()).removesuffix(".")
    words = options(field.annotation)
    return f"{text} ({', '.join(f'`{word}`' for word in words)})" if words else text


def options(annotation: Any) -> list[str]:
    """Return the values of the Literals in an annotation.

    >>> options(Literal["mean", "sum"] | None)
    ['mean', 'sum']
    """
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [word for part in get_args(annotation) for word in options(part)]


def with_table(page: str, name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the page with a table between the marks of this name.

    Raises:
        ValueError: a mark is missing or occurs twice.
    """
    begin, end = marks(name)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page must have {begin!r} and {end!r} once each")
    before, _, rest = page.partition(begin)
    text = table(head, rows).replace("---:|", "---|")
    return f"{before}{begin}\n{text}{end}{rest.partition(end)[2]}"


def marks(name: str) -> tuple[str, str]:
    """Return the marks before and after a table."""
    return f"<!-- {name}: written by scripts/docs.py -->\n", f"<!-- end of {name} -->\n"


def main() -> None:
    """Write all pages."""
    for path, generated in PAGES.items():
        path.write_text(generated(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
