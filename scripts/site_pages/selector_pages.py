"""Pages of selectors: those of docs/selectors, with choices, price and entries of their keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fleetsim.selectors import DEMANDS, KINDS
from fleetsim.selectors.demands import Demand
from scripts.kinds_of_parts import USES
from scripts.site_pages import key_pages, selections
from scripts.site_pages.staging import ROOT, mended

HOME = ROOT / "docs" / "selectors"
OVERVIEW = ROOT / "docs" / "selectors.md"
KEYS = re.compile(r"^<!-- keys of .+: written by scripts/docs -->\n\n(?:\|.*\n)+", re.MULTILINE)
RULE_END = "<!-- end -->\n"
"""Line that ends a part from docstrings; the first one is that of the rule."""


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
    """Return the page of a selector: its text, choices, price, and keys that the search finds.

    Raises:
        SystemExit: its choices are not stored.
    """
    if kind not in stored:
        raise SystemExit(
            f"docs/selections.jsonl: no line of {kind}; run"
            f" python -m scripts.site_pages.selections {kind}"
        )
    result = stored[kind]
    command = " \\\n    ".join(
        [
            f"fleetsim run {selections.SCENARIO}",
            *(f"--set '{key}={value}'" for key, value in selections.overrides(kind).items()),
        ]
    )
    choices = "\n\n".join(
        [
            "\n## Whom it selects",
            selections.figure(result),
            f"Clients that `{kind}` selects in the scenario `{selections.SCENARIO}` with"
            f" {len(_clients(result))} clients, in rounds 1 to {len(result['selected'])} from the"
            " top: a column for each client, by device, and those with most samples first. A pale"
            " cell did not deliver: late, lost, or cancelled because enough others had delivered."
            " The bars count the selections of each client.",
            f"```sh\n{command}\n```",
            "## What it asks for, and what that costs",
            demands(kind),
            price(result, stored["random"]),
            "Prices on a larger fleet: [](/evidence/selector-prices.md).\n",
        ]
    )
    told = (key_pages.ANY_MODE, f"{key_pages.SELECTOR}.kind: {kind}")
    entries = [key_pages.described(*each, told=told) for each in key_pages.selector_keys(kind)]
    keys = "\n".join([f"Keys below `{key_pages.SELECTOR}`, beside `kind: {kind}`:\n", *entries])
    path = HOME / f"{kind}.md"
    text = mended(path.read_text("utf-8"), path, f"selectors/{kind}.md")
    text = text.replace(RULE_END, RULE_END + choices, 1)
    return key_pages.markdown(KEYS.sub(lambda _: keys, text))


def overview() -> str:
    """Return the page on all selectors, with the entry of their key and their pages."""
    (entry,) = key_pages.entries(
        each for each in key_pages.scenario_keys() if each.key == f"{key_pages.SELECTOR}.kind"
    )
    text = mended(OVERVIEW.read_text("utf-8"), OVERVIEW, "selectors.md")
    pages = "```{toctree}\n:hidden:\n:glob:\n\nselectors/*\n```\n"
    return "\n".join([text, key_pages.described(entry.key, entry), pages])


def pages() -> dict[str, str]:
    """Return the pages of all selectors by place."""
    stored = selections.stored()
    return {
        "selectors.md": overview(),
        **{f"selectors/{kind}.md": page(kind, stored) for kind in KINDS},
    }
