"""Pages of keys: every key of scenarios, studies and searches, as `fleetsim explain` shows it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache

from fleetsim.cli.explain_keys import FileKind, page_of, schema_of
from fleetsim.schema.explained_keys import ExplainedKey, explained_keys, first_line, of_key

CHAPTERS = {
    "": "Scenario: name, seed, stop, evaluation and checkpoints",
    "task": "Learning task: samples kept out, and local training",
    "task.dataset": "Data sets",
    "task.partition": "Partitions",
    "task.model": "Networks",
    "task.local.optimizer": "Optimizers",
    "task.local.algorithm": "Algorithms of clients",
    "fleet": "Fleet: devices, network, people, batteries and heat",
    "fleet.channel": "Cellular channels",
    "server": "Server: cohorts, deadlines, eligibility, compression and privacy",
    "server.aggregator": "Aggregators",
}
"""Titles of the pages of scenario keys by what these begin with; the longest that fits counts."""
OTHERS: dict[FileKind, str] = {"study": "Keys of a study", "search": "Keys of a search"}
SELECTOR = "server.selector"
INTRO = "every key with its type, range, default and effect, as `fleetsim explain KEY` shows it."
ANY_MODE = "server.mode: synchronous, buffered"
REFERENCES = re.compile(r"`?\bdocs/([\w/-]+\.md)`?")


def markdown(docstring: str) -> str:
    """Return a docstring as Markdown, with links to the pages that it names.

    >>> markdown("See docs/selectors.md.")
    'See [](/selectors.md).'
    """
    return REFERENCES.sub(r"[](/\1)", docstring)


@cache
def scenario_keys() -> tuple[ExplainedKey, ...]:
    """Return all keys of scenarios."""
    return tuple(explained_keys(schema_of("scenario", None)))


def place_of(prefix: str) -> str:
    """Return the place on the site of a page of `CHAPTERS`."""
    return f"reference/keys/{prefix.replace('.', '-') or 'scenario'}.md"


def entries(keys: Iterable[ExplainedKey]) -> list[ExplainedKey]:
    """Return keys in their order, alternatives that say the same as one."""
    keys = list(keys)
    return [each for key in dict.fromkeys(one.key for one in keys) for each in of_key(keys, key)]


def values_of(entry: ExplainedKey, tag: str) -> list[str]:
    """Return the kinds for which a key is there, by the key that chooses them."""
    found = (each.partition(": ") for each in entry.beside)
    return next((values.split(", ") for key, _, values in found if key == tag), [])


def named(found: Iterable[ExplainedKey]) -> list[tuple[str, ExplainedKey]]:
    """Return keys with names of which no two are equal: keys of some kinds alone name these."""
    found = list(found)
    for skipped in (("server.mode",), ()):
        times = Counter(each.key for each in found)
        names = [
            f"{each.key} ({kinds})"
            if times[each.key] > 1 and (kinds := _kinds_around(each, skipped))
            else each.key
            for each in found
        ]
        if len(set(names)) == len(names):
            break
    return list(zip(names, found, strict=True))


def _kinds_around(entry: ExplainedKey, skipped: tuple[str, ...]) -> str:
    pairs = (each.split(": ") for each in entry.beside)
    return "; ".join(values for key, values in pairs if key not in skipped)


def described(
    name: str, entry: ExplainedKey, directive: str = "key", told: tuple[str, ...] = (ANY_MODE,)
) -> str:
    """Return the entry of a key; the page itself tells the kinds `told`."""
    facts = f"Type: {entry.type}"
    if entry.range:
        facts += f", {entry.range.replace('<', '&lt;')}"
    facts += "; required." if entry.default is None else f"; default: `{entry.default}`."
    if beside := [f"`{each}`" for each in entry.beside if each not in told]:
        facts += f" With {' and '.join(beside)}."
    if entry.no_effect:
        facts += f" No effect if {entry.no_effect}."
    lines = [markdown(entry.description), facts]
    if entry.kinds and entry.key not in {*CHAPTERS, SELECTOR, f"{SELECTOR}.kind"}:
        kinds = (f"- `{kind}`: {first_line(text)}" for kind, text in entry.kinds.items())
        lines.append("\n".join(kinds))
    body = "\n\n".join(filter(None, lines))
    return f"::::{{{directive}}} {name}\n{body}\n::::\n"


def chapters() -> dict[str, list[tuple[str, ExplainedKey]]]:
    """Return the keys of each page of `CHAPTERS`, with their names."""
    found: dict[str, list[tuple[str, ExplainedKey]]] = defaultdict(list)
    below = f"{SELECTOR}."
    for name, entry in named(
        entries(each for each in scenario_keys() if not each.key.startswith(below))
    ):
        fits = [
            prefix
            for prefix in CHAPTERS
            if not prefix or entry.key == prefix or entry.key.startswith(f"{prefix}.")
        ]
        found[max(fits, key=len)].append((name, entry))
    return found


def chapter(prefix: str, members: list[tuple[str, ExplainedKey]]) -> str:
    """Return a page of scenario keys; where a key chooses a kind, with a section for each kind."""
    tag = f"{prefix}.kind"
    kinds: dict[str, str] = {}
    for _, each in members:
        if each.key == prefix:
            kinds |= each.kinds
    sections: dict[str, list[str]] = {"": [], **{kind: [] for kind in kinds}, "several": []}
    told = (ANY_MODE, f"{tag}: {', '.join(kinds)}", *(f"{tag}: {kind}" for kind in kinds))
    for name, entry in members:
        of = values_of(entry, tag) if kinds else []
        section = of[0] if len(of) == 1 else "several" if of and len(of) < len(kinds) else ""
        sections[section].append(described(name, entry, told=told))
    home = page_of(prefix).removeprefix("docs/")
    lines = [
        f"# {CHAPTERS[prefix]}\n",
        f"For users who write a scenario. After this page you know {INTRO}",
    ]
    lines += [f"What it means, and its limits: [](/{home}).\n", *sections[""]]
    for kind, text in kinds.items():
        lines += [f"## `{kind}`\n", f"{markdown(text)}\n", *sections[kind]]
    if sections["several"]:
        lines += ["## Keys of several kinds\n", *sections["several"]]
    return "\n".join(lines)


def selector_keys(kind: str) -> list[tuple[str, ExplainedKey]]:
    """Return the keys of a kind of selector; names that other kinds have, too, with the kind."""
    below, tag = f"{SELECTOR}.", f"{SELECTOR}.kind"
    owners: dict[str, set[str]] = defaultdict(set)
    for each in scenario_keys():
        if each.key.startswith(below):
            owners[each.key].update(values_of(each, tag))
    mine = [each for each in scenario_keys() if kind in values_of(each, tag)]
    return [
        (f"{name} ({kind})" if name == each.key and len(owners[each.key]) > 1 else name, each)
        for name, each in named(entries(mine))
    ]


def other_file(file: FileKind) -> str:
    """Return the page of the keys of studies or searches."""
    found = entries(explained_keys(schema_of(file, None)))
    body = (described(name, each, f"{file}-key") for name, each in named(found))
    intro = f"For users who write one ([](/studies.md)). After this page you know {INTRO}\n"
    return "\n".join([f"# {OTHERS[file]}\n", intro, *body])


def places() -> list[str]:
    """Return the places of all pages of keys, in their order."""
    return [*map(place_of, [*CHAPTERS, *OTHERS])]


def pages() -> dict[str, str]:
    """Return all pages of keys by place; those of selectors are elsewhere."""
    return {
        **{place_of(prefix): chapter(prefix, members) for prefix, members in chapters().items()},
        **{place_of(file): other_file(file) for file in OTHERS},
    }
