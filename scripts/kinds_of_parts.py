"""Rows of tables about kinds of selectors and aggregators, from their settings classes.

`scripts/docs` writes them; a selector without a section in docs/selectors.md gets one.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, get_args, get_origin

from fleetsim.learning.aggregation.settings import AggregatorSettings
from fleetsim.schema.field_docstrings import description
from fleetsim.schema.key_conditions import ActsIf
from fleetsim.selectors import KINDS, SelectorSettings
from fleetsim.settings import Settings

PAGE = "docs/selectors.md"
"""Page with a section for each selector."""
AFTER_SELECTORS = "## The equations on their own\n"
"""Heading before which the section of a new selector is put."""
SELECTORS = get_args(get_args(SelectorSettings)[0])
AGGREGATORS = get_args(get_args(AggregatorSettings)[0])
Row = tuple[str, ...]


def kind_of(settings: type[Settings]) -> str:
    """Return the kind of a settings class."""
    return str(settings.model_fields["kind"].default)


def selectors() -> Iterator[Row]:
    """Kinds of selectors and what they choose."""
    for kind, line in KINDS.items():
        yield f"`{kind}`", line.removesuffix(".")


def aggregators() -> Iterator[Row]:
    """Kinds of aggregators with their keys."""
    for settings in AGGREGATORS:
        for name, *cells in keys_of(settings):
            yield f"`{kind_of(settings)}`", name, *cells


def keys_of(settings: type[Settings]) -> Iterator[Row]:
    """Name, default and meaning of all keys but `kind`."""
    for name, field in settings.model_fields.items():
        if name != "kind":
            text = " ".join(str(description(settings, name)).split()).removesuffix(".")
            words = ", ".join(f"`{word}`" for word in options(field.annotation))
            said = f"{text} ({words})" if words else text
            yield (
                f"`{name}`",
                default_text(field),
                said + limits(settings.conditions().get(name, ())),
            )


TABLES: Mapping[str, Callable[[], Iterable[Row]]] = {
    "kinds of selectors": selectors,
    "keys of aggregators": aggregators,
    **{f"keys of {kind_of(cls)}": partial(keys_of, cls) for cls in SELECTORS},
}


def default_text(field: Any) -> str:
    """Return the default of a field as a scenario writes it."""
    if field.is_required():
        return "required"
    if isinstance(field.default, Settings):
        return f"`{{{', '.join(f'{key}: {value}' for key, value in field.default)}}}`"
    return f"`{field.default if isinstance(field.default, str) else json.dumps(field.default)}`"


def options(annotation: Any) -> list[str]:
    """Return the values of the Literals in an annotation.

    >>> options(Literal["mean", "sum"] | None)
    ['mean', 'sum']
    """
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [word for part in get_args(annotation) for word in options(part)]


def limits(conditions: Iterable[ActsIf]) -> str:
    """Return when a key has an effect, if not always, from the conditions in `acts_if`."""
    text = ""
    for one in conditions:
        alone = re.fullmatch(r"it is of (.+) alone", one.because)
        text += f"; with `{alone[1]}` alone" if alone else f"; without effect where {one.because}"
    return text.replace("True", "true").replace("None", "null")


def with_sections(page: str) -> str:
    """Return docs/selectors.md with a section for each selector that has none."""
    for kind, line in KINDS.items():
        mark = f"<!-- keys of {kind}: written by scripts/docs -->\n"
        if mark not in page:
            table = "| key | default | meaning |\n|---|---|---|\n"
            section = f"## `{kind}`\n\n{line}\n\n{mark}\n{table}\n"
            page = page.replace(AFTER_SELECTORS, section + AFTER_SELECTORS)
    return page
