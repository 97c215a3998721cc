"""The verb `explain`: what a key of a scenario, a study or a search means."""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

import typer

from fleetsim.cli.terminal import output, output_json
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.schema.explained_keys import (
    ExplainedKey,
    explained_keys,
    first_line,
    keys_called,
    nearest_key,
    of_key,
)

FileKind = Literal["scenario", "study", "search"]
_WIDTH = 100
_MOST_MEANT = 5
_PAGES = {
    "data": ("task.dataset", "task.partition"),
    "models/models": ("task.model",),
    "models/learning": ("task", "evaluate", "trainer"),
    "models/channel": ("fleet.network", "fleet.channel", "fleet.wifi", "fleet.shared_links"),
    "models/transport": ("fleet.transport",),
    "models/usage": ("fleet.usage",),
    "models/battery": ("fleet.battery",),
    "device-speeds": ("fleet.thermal", "fleet.uncertainty", "fleet.unit_spread_sigma"),
    "models/energy": ("energy",),
    "models/memory": ("fleet.memory",),
    "models/heterogeneity": ("fleet.heterogeneity",),
    "devices": ("fleet",),
    "selectors": ("server.selector",),
    "models/aggregation": ("server.aggregator",),
    "models/privacy": ("server.privacy", "server.secure_aggregation"),
    "models/interruption": ("server.interruption",),
    "models/server": ("server", "stop"),
    "outputs": ("checkpoint",),
    "commands": ("",),
}
"""Page of docs/ about the keys that begin so; the first that fits."""


def explain(
    key: str = "",
    *,
    study: bool = False,
    search: bool = False,
    as_json: bool = False,
    plugin: list[str] | None = None,
) -> None:
    """Explain a key: its type, range, default and meaning, and where it has no effect."""
    file: FileKind = "search" if search else "study" if study else "scenario"
    keys = [
        replace(each, kinds={kind: first_line(text) for kind, text in each.kinds.items()})
        for each in explained_keys(schema_of(file, plugin))
    ]
    matches = of_key(keys, key)
    below = [each for each in keys if each.key.rpartition(".")[0] == key]
    if not matches and not below:
        called = keys_called(keys, key)[:_MOST_MEANT] or filter(None, [nearest_key(keys, key)])
        meant = " or ".join(map(quoted, called))
        hint = f"; did you mean {meant}?" if meant else ""
        raise ScenarioError(f"explain: {quoted(key)} is no key{hint}")
    is_scenario = file == "scenario"
    if as_json:
        names = dict.fromkeys(each.key for each in below)
        once = matches or [each for name in names for each in of_key(below, name)]
        pages = [page_of(each.key, each.beside) if is_scenario else None for each in once]
        output_json([asdict(each) | {"page": page} for each, page in zip(once, pages, strict=True)])
        return
    lines = [line for each in matches for line in (*_text(each, is_scenario=is_scenario), "")]
    if below and not any(each.kinds for each in matches):
        lines += [f"Keys of {key or 'a file'}:", *table({e.key: e.description for e in below})]
    output("\n".join(lines).rstrip())


def schema_of(file: FileKind, plugin: list[str] | None) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file; that of scenarios with the keys of plug-ins."""
    if plugin and file != "scenario":
        raise typer.BadParameter(
            f"--plugin adds the keys of a plug-in to those of scenarios; leave it out with {file}"
        )
    if file == "study":
        from fleetsim.studies import settings

        return settings.schema()
    if file == "search":
        from fleetsim.studies.search import search_file

        return search_file.schema()
    from fleetsim import scenario

    return scenario.schema(plugin)


def page_of(key: str, beside: Iterable[str] = ()) -> str:
    """Return the page about a key of scenarios, as `fleetsim docs` names it.

    `beside` are the kinds for which it is there; a key of one selector alone is on its page.
    """
    for tag, _, kind in (each.partition(": ") for each in beside):
        if tag == "server.selector.kind" and "," not in kind:
            return f"selectors/{kind}"
    starts = {".".join(key.split(".")[:length]) for length in range(key.count(".") + 2)}
    return next(page for page, keys in _PAGES.items() if starts.intersection(keys))


def _text(key: ExplainedKey, *, is_scenario: bool) -> list[str]:
    """Return a key as lines: its name, its description and what else is known of it."""
    facts: dict[str, str | None] = {
        "with": "; ".join(key.beside),
        "type": key.type,
        "range": key.range,
        "default": "none, it is required" if key.default is None else key.default,
        "no effect": key.no_effect and f"if {key.no_effect}",
        "page": f"fleetsim docs {page_of(key.key, key.beside)}" if is_scenario else None,
    }
    shown = {name: text for name, text in facts.items() if text}
    words = textwrap.wrap(key.description, _WIDTH)
    kinds = ["kinds:", *table(key.kinds)] if key.kinds else []
    return [key.key, *words, *table(shown), *kinds]


def table(rows: Mapping[str, str]) -> list[str]:
    """Return rows of two columns, the second wrapped."""
    width = max(map(len, rows), default=0) + 4
    wrapper = textwrap.TextWrapper(max(_WIDTH, width + 40), subsequent_indent=" " * width)
    lines = []
    for name, text in rows.items():
        wrapper.initial_indent = f"  {name}".ljust(width)
        lines += wrapper.wrap(text) or [f"  {name}"]
    return lines
