"""Pages of selectors: rule and equations from docstrings, choices, price, settings and source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fleetsim.selectors import DEMANDS, KINDS
from fleetsim.selectors.demands import Demand
from scripts.kinds_of_parts import SELECTORS, kind_of
from scripts.site_pages import key_pages, selections
from scripts.site_pages.staging import CHILDREN

USES = {
    "yes": "Usable outside of a simulation",
    "private": "Usable outside of a simulation, but not private",
    "small": "For small fleets",
    "oracle": "An oracle, for comparison alone",
}
"""Verdicts on the use by a real server, of `fleetsim.selectors.demands`."""


def docstrings(kind: str) -> Iterator[list[str]]:
    """Yield the paragraphs of the modules that describe a selector: equations, then details.

    They belong to the package of its settings class. The title of each is left out.
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
    for name in names:
        yield str(import_module(name).__doc__).strip().split("\n\n")[1:]


def demands(kind: str) -> str:
    """Return what a selector must know, by the setting that changes it."""
    settings: dict[Demand, list[str]] = {}
    for setting, demand in DEMANDS[kind].items():
        settings.setdefault(demand, []).extend([f"`{setting}`"] if setting else [])
    return "\n".join(
        f"- {', '.join(names) + ': ' if names else ''}The server must know: {demand.knows}."
        f" {USES[demand.use]}: {demand.because}."
        for demand, names in settings.items()
    )


def price(result: Mapping[str, Any], random: Mapping[str, Any]) -> str:
    """Return what the selector's probes cost in its stored run, and its totals beside random's."""
    probes = "It asks its clients nothing beside training."
    if result["probes"]:
        energy, seconds = (
            f"{100.0 * result[part] / result[whole]:.0f} %"
            for part, whole in (("probe_j", "energy_j"), ("probe_s", "virtual_s"))
        )
        probes = (
            f"It sent {result['probes']:,} probes, which took {energy} of the run's joules and"
            f" {seconds} of its time."
        )
    totals = (
        f"Its {len(result['selected'])} rounds took {result['virtual_s']:,.0f} s and"
        f" {result['energy_j']:,.0f} J, and reached {100.0 * result['accuracy']:.1f} %"
    )
    if result["kind"] == "random" or len(_clients(result)) != len(_clients(random)):
        return f"{probes} {totals}."
    return (
        f"{probes} {totals}; those of `random` took {random['virtual_s']:,.0f} s and"
        f" {random['energy_j']:,.0f} J, and reached {100.0 * random['accuracy']:.1f} %. This is one"
        " run with one seed, no evidence: [](/statistics.md)."
    )


def _clients(result: Mapping[str, Any]) -> list[int]:
    return [client for clients in result["clients"].values() for client in clients]


def page(kind: str, stored: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of a selector.

    Raises:
        SystemExit: its choices are not stored.
    """
    if kind not in stored:
        raise SystemExit(
            f"docs/selections.jsonl: no line of {kind}; run"
            f" python -m scripts.site_pages.selections {kind}"
        )
    result = stored[kind]
    paragraphs = [paragraph for module in docstrings(kind) for paragraph in module]
    is_source = [one.startswith(("Source:", "Sources:", "Secondary source:")) for one in paragraphs]
    rule = [one for one, source in zip(paragraphs, is_source, strict=True) if not source]
    sources = [one for one, source in zip(paragraphs, is_source, strict=True) if source]
    command = " \\\n    ".join(
        [
            f"fleetsim run {selections.SCENARIO}",
            *(f"--set '{key}={value}'" for key, value in selections.overrides(kind).items()),
        ]
    )
    told = (key_pages.ANY_MODE, f"{key_pages.SELECTOR}.kind: {kind}")
    parts = [
        f"# {kind}",
        KINDS[kind],
        "## Rule",
        *rule,
        f"Variants, failures and readings of the paper: [](/selectors.md#{kind}).",
        "## Whom it selects",
        selections.figure(result),
        f"Clients that `{kind}` selects in the scenario `{selections.SCENARIO}` with"
        f" {len(_clients(result))} clients, in rounds 1 to {len(result['selected'])} from the top:"
        " a column for each client, by device, and those with most samples first. A pale cell did"
        " not deliver: late, lost, or cancelled because enough others had delivered. The bars"
        " count the selections of each client.",
        f"```sh\n{command}\n```",
        "## What it asks for, and what that costs",
        demands(kind),
        price(result, stored["random"]),
        "Prices on a larger fleet: [](/evidence/selector-prices.md).",
        "## Settings",
        f"Keys below `{key_pages.SELECTOR}`, beside `kind: {kind}`:",
        *(key_pages.described(*each, told=told) for each in key_pages.selector_keys(kind)),
        "## Source",
        *sources,
    ]
    return "\n\n".join(map(key_pages.markdown, parts)) + "\n"


def overview() -> str:
    """Return the list of all selectors."""
    (entry,) = key_pages.entries(
        each for each in key_pages.scenario_keys() if each.key == f"{key_pages.SELECTOR}.kind"
    )
    rows = (
        f"| [`{kind}`](/reference/selectors/{kind}.md) | {line} | {use} |"
        for kind, line in KINDS.items()
        for use in [USES[next(iter(DEMANDS[kind].values())).use]]
    )
    return "\n".join(
        [
            "# Selectors: one page each\n",
            "Rules for all of them: [](/selectors.md).\n",
            "| kind | whom it chooses | with its defaults |\n|---|---|---|",
            *rows,
            "",
            key_pages.described(entry.key, entry),
            CHILDREN,
        ]
    )


def pages() -> dict[str, str]:
    """Return the pages of all selectors by place."""
    stored = selections.stored()
    return {
        "reference/selectors/index.md": overview(),
        **{f"reference/selectors/{kind}.md": page(kind, stored) for kind in KINDS},
    }
