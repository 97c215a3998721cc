"""Tables and rules of selectors, and keys of aggregators, from settings classes and docstrings.

`scripts/docs` writes them; a selector without a page in docs/selectors gets one.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from fleetsim.learning.aggregation.settings import AggregatorSettings
from fleetsim.schema.field_docstrings import description
from fleetsim.schema.key_conditions import ActsIf
from fleetsim.selectors import DEMANDS, KINDS, SelectorSettings
from fleetsim.settings import Settings

SELECTORS = get_args(get_args(SelectorSettings)[0])
USES = {
    "yes": "Usable outside of a simulation",
    "private": "Usable outside of a simulation, but not private",
    "small": "For small fleets",
    "oracle": "An oracle, for comparison alone",
}
"""Verdicts on the use by a real server, of `fleetsim.selectors.demands`."""
BLOCK = re.compile(
    r"^<!-- (rule|source) of ([\w-]+): written by scripts/docs -->\n(.*?)^<!-- end -->",
    re.MULTILINE | re.DOTALL,
)
"""A part of a selector's page that comes from docstrings."""
NEW_PAGE = """# {kind}
For researchers who choose or repeat it. After this page you know its rule and its settings.

{line}

## Rule
<!-- rule of {kind}: written by scripts/docs -->
<!-- end -->

## Settings
<!-- keys of {kind}: written by scripts/docs -->

| key | default | meaning |
|---|---|---|

## Source
<!-- source of {kind}: written by scripts/docs -->
<!-- end -->
"""
AGGREGATORS = get_args(get_args(AggregatorSettings)[0])
Row = tuple[str, ...]
Table = Callable[[], Iterable[Row]]


def kind_of(settings: type[Settings]) -> str:
    """Return the kind of a settings class."""
    return str(settings.model_fields["kind"].default)


def selectors() -> Iterator[Row]:
    """Kinds of selectors, what they choose, and whether a real server could."""
    for kind, line in KINDS.items():
        use = USES[next(iter(DEMANDS[kind].values())).use]
        yield f"[`{kind}`](selectors/{kind}.md)", line.removesuffix("."), use


def docstring(kind: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs on a selector's rule, and on its sources, without titles.

    They are those of the modules with its equations and its details, in the package of its
    settings class.
    """
    settings = next(cls for cls in SELECTORS if kind_of(cls) == kind)
    package = settings.__module__.rpartition(".")[0]
    if package.endswith(".baselines"):
        names = [settings.__module__]
    else:
        names = [
            name
            for module in ("equations", "selector", "belief_propagation")
            if find_spec(name := f"{package}.{module}") is not None
        ]
    found: tuple[list[str], list[str]] = [], []
    for name in names:
        for text in str(import_module(name).__doc__).strip().split("\n\n")[1:]:
            found[text.startswith(("Source:", "Sources:", "Secondary source:"))].append(text)
    return found


def with_blocks(page: str) -> str:
    """Return a page with the parts of `BLOCK` anew."""

    def written(match: re.Match[str]) -> str:
        text = "\n\n".join(docstring(match[2])[match[1] == "source"])
        return f"{match[0].partition('-->')[0]}-->\n\n{text}\n\n<!-- end -->"

    return BLOCK.sub(written, page)


def new_pages(folder: Path) -> dict[Path, str]:
    """Return a page for each selector that has none in a folder."""
    places = {kind: folder / f"{kind}.md" for kind in KINDS}
    return {
        place: NEW_PAGE.format(kind=kind, line=KINDS[kind])
        for kind, place in places.items()
        if not place.exists()
    }


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


TABLES: Mapping[str, Table] = {
    "kinds of selectors": selectors,
    "keys of aggregators": aggregators,
    **{f"keys of {kind_of(cls)}": partial(keys_of, cls) for cls in SELECTORS},
}


def default_text(field: Any) -> str:
    """Return the default of a field as a scenario writes it."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Settings):
        return f"`{{{', '.join(f'{key}: {value}' for key, value in default)}}}`"
    if default in ("", {}, []):
        return "none"
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def definition(settings: type[Settings], name: str) -> str:
    """Return the docstring of a key with its words, and those of the keys of records in it."""
    annotation = settings.model_fields[name].annotation
    text = " ".join((description(settings, name) or "").split())
    if words := ", ".join(f"`{word}`" for word in options(annotation)):
        text = f"{text.removesuffix('.')} ({words}).".lstrip()
    inner = [
        f"`{key}`: {definition(record, key).removesuffix('.')}"
        for record in records(annotation)
        for key in record.model_fields
    ]
    return f"{text} {'; '.join(inner)}." if inner else text


def records(annotation: Any) -> list[type[Settings]]:
    """Return the classes of settings in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [record for part in get_args(annotation) for record in records(part)]


def is_list(annotation: Any) -> bool:
    """Return whether an annotation holds a list."""
    return get_origin(annotation) is tuple or any(map(is_list, get_args(annotation)))


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
