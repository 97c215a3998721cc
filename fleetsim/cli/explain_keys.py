"""The verb `explain`: what a key of a scenario or a study file means."""

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated

import typer

from fleetsim.cli.scenario_options import JsonOption, PluginOption
from fleetsim.cli.terminal import output, output_json
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.schema.explained_keys import (
    ExplainedKey,
    explained_keys,
    first_line,
    nearest_key,
    of_key,
)

_WIDTH = 100
PAGES = {
    "task.dataset": "data",
    "task.partition": "data",
    "task.model": "models/models",
    "task": "models/learning",
    "fleet.network": "models/channel",
    "fleet.channel": "models/channel",
    "fleet.wifi": "models/channel",
    "fleet.shared_links": "models/channel",
    "fleet.transport": "models/transport",
    "fleet.usage": "models/usage",
    "fleet.battery": "models/battery",
    "fleet.thermal": "models/energy",
    "fleet.memory": "models/memory",
    "fleet.heterogeneity": "models/heterogeneity",
    "fleet": "devices",
    "server.selector": "selectors",
    "server.aggregator": "models/aggregation",
    "server.privacy": "models/privacy",
    "server.secure_aggregation": "models/privacy",
    "server.interruption": "models/interruption",
    "server": "models/server",
    "stop": "models/server",
    "energy": "models/energy",
    "evaluate": "models/learning",
    "trainer": "models/learning",
    "checkpoint": "outputs",
}
"""Page of docs/ about the keys that begin so; the first that fits."""


def explain(
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="Path of a key, such as server.deadline_s, or a part."),
    ] = "",
    study: Annotated[
        bool, typer.Option("--study", help="A key of study files; without, of scenarios.")
    ] = False,
    as_json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Explain a key: its type, range, default and meaning, and where it has no effect."""
    keys = [
        replace(each, kinds={kind: first_line(text) for kind, text in each.kinds.items()})
        for each in _keys(plugin, is_study=study)
    ]
    matches = of_key(keys, key)
    below = [each for each in keys if _is_right_below(each.key, key)]
    if not matches and not below:
        meant = nearest_key(keys, key)
        hint = "" if meant is None else f"; did you mean {quoted(meant)}?"
        raise ScenarioError(f"explain: {quoted(key)} is no key{hint}")
    page = None if study else page_of(key)
    if as_json:
        records = [asdict(each) | {"page": page} for each in matches or _once(below)]
        output_json(records)
        return
    lines = [line for each in matches for line in (*_text(each, page), "")]
    if below and not any(each.kinds for each in matches):
        lines += [f"Keys of {key or 'a file'}:", *table({e.key: e.description for e in below})]
    output("\n".join(lines).rstrip())


def page_of(key: str) -> str:
    """Return the path of the page of docs/ about a key of scenarios."""
    fits = [page for start, page in PAGES.items() if f"{key}.".startswith(f"{start}.")]
    return f"docs/{[*fits, 'commands'][0]}.md"


def _keys(plugin: list[str] | None, *, is_study: bool) -> list[ExplainedKey]:
    if is_study:
        from fleetsim.studies import settings

        return explained_keys(settings.schema())
    from fleetsim import scenario

    return explained_keys(scenario.schema(plugin))


def _is_right_below(name: str, key: str) -> bool:
    start = f"{key}." if key else ""
    return name.startswith(start) and "." not in name[len(start) :]


def _once(keys: list[ExplainedKey]) -> list[ExplainedKey]:
    return [each for name in dict.fromkeys(one.key for one in keys) for each in of_key(keys, name)]


def _text(key: ExplainedKey, page: str | None) -> list[str]:
    """Return a key as lines: its name, its description and what else is known of it."""
    facts: dict[str, str | None] = {
        "with": "; ".join(key.beside),
        "type": key.type,
        "range": key.range,
        "default": "none, it is required" if key.default is None else key.default,
        "no effect": key.no_effect and f"if {key.no_effect}",
        "page": page,
    }
    shown = {name: text for name, text in facts.items() if text}
    words = textwrap.wrap(key.description, _WIDTH)
    kinds = ["kinds:", *table(key.kinds)] if key.kinds else []
    return [key.key, *words, *table(shown), *kinds]


def table(rows: Mapping[str, str]) -> list[str]:
    """Return rows of two columns, the second wrapped."""
    width = max(map(len, rows), default=0) + 2
    lines = []
    for name, text in rows.items():
        first, *more = textwrap.wrap(text, max(_WIDTH - width - 2, 40)) or [""]
        lines += [f"  {name:{width}}{first}".rstrip(), *(" " * (width + 2) + one for one in more)]
    return lines
