"""Pages of the gallery: a card for each bundled scenario and study, from docs/gallery.jsonl."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from typing import Any

from fleetsim import catalogue
from fleetsim.report import quantities
from fleetsim.report.figures.ledger import COMPONENT_NAMES
from scripts.site_pages import doors, gallery
from scripts.site_pages.drawing import Axis, path, svg, text
from scripts.site_pages.gallery import Key, Line

TITLES = {
    "scenarios": "Scenarios",
    "studies": "Studies",
    "papers-fedgcs": "FedGCS",
    "papers-fedgra": "FedGRA",
    "papers-goal-directed": "Goal-directed selection",
    "papers-gpfl": "GPFL",
    "papers-survey": "Survey of selectors",
}
"""Titles of pages; those of papers are named after the first words of the files' names."""
COMMANDS = {"scenarios": "fleetsim run", "studies": "fleetsim study run"}
HOW = {
    "scenarios": "A figure shows one run with the scenario's own seed: what it costs, and no"
    " evidence of more. Energy is that of the whole fleet.",
    "studies": "A dot is the ratio of an arm's costs to those of the baseline, the geometric mean"
    " over seeds; its line is the 95 % interval, and one that reaches the edge goes on. Filled dots"
    " are significantly different from the baseline. Compared are the costs that a study declares"
    " as primary; else joules to the highest accuracy that most arms reached with all seeds."
    " How to read a verdict: [](/statistics.md).",
}
WIDTH, HEIGHT, LEFT, RIGHT, FOOT = 320, 210, 46, 20, 40
"""Units of a panel: width, height, and room for the numbers of its axes."""
NAMES, ROW = 150, 20
"""Units of rows of arms: room for names, and height."""


def panel(x: list[float], y: list[float], x_title: str, y_title: str, words: str) -> str:
    """Return a curve over its axes."""
    right, floor = WIDTH - RIGHT, HEIGHT - FOOT
    across, up = Axis.from_zero(max(x), LEFT, right), Axis.from_zero(max(y), floor, 10)
    points = " ".join(f"{across.at(a):g} {up.at(b):g}" for a, b in zip(x, y, strict=True))
    parts = [
        path("lines", "".join(f"M{LEFT} {place:g}H{right}" for place, _ in up.ticks())),
        path("curve", f"M{points}"),
        *(text(LEFT - 6, place + 3, number, "end") for place, number in up.ticks()),
        *(text(place, floor + 14, number, "middle") for place, number in across.ticks()),
        text((LEFT + right) / 2, HEIGHT - 8, x_title, "middle"),
        text(11, (floor + 10) / 2, y_title, "middle", turned=-90),
    ]
    return svg("panel", WIDTH, HEIGHT, words, parts)


def curves(line: Line) -> list[str]:
    """Return accuracy over time and over energy, or energy over time if nothing was trained."""
    seconds, joules, accuracies = (list(column) for column in zip(*line["curve"], strict=True))
    time, time_unit = quantities.unit_for(max(seconds), "s")
    energy, energy_unit = quantities.unit_for(max(joules), "j")
    x = [one / time for one in seconds], f"virtual time ({time_unit})"
    y = [one / energy for one in joules], f"energy ({energy_unit})"
    pairs = [(x, y)]
    if accuracies[-1] is not None:
        percents = [100.0 * one for one in accuracies], "accuracy (%)"
        pairs = [(x, percents), (y, percents)]
    return [
        panel(a, b, a_title, b_title, f"{line['name']}: {b_title} over {a_title}. {finding(line)}")
        for (a, a_title), (b, b_title) in pairs
    ]


def forest(line: Line, names: float = NAMES) -> str:
    """Return a row for each condition and arm: the ratio of its costs, with its interval."""
    rows = [row for group in line["groups"] for row in ([group["condition"]], *group["verdicts"])]
    rows = [row for row in rows if row[0]]
    ratios = [1.0, *(row[2] for row in rows if len(row) > 1 and row[2])]
    ends = [end for row in rows for end in row[3:] if end]
    # Intervals of few seeds may be a thousand times as wide as the ratios are.
    low = max(min(ratios) / 4, min([0.9 * min(ratios), *ends]))
    high = min(max(ratios) * 4, max([1.1 * max(ratios), *ends]))
    across, floor = Axis(low, high, names + 8, names + 258, is_log=True), ROW * len(rows) + 6
    title = f"{line['metric']} to {line['target']}, in ratio to {line['baseline']}"
    parts = [
        path("lines", f"M{across.at(1.0):g} 4V{floor}M{across.start:g} {floor}H{across.end:g}"),
        *(part for number, row in enumerate(rows) for part in _row(row, 14 + ROW * number, across)),
        *(text(place, floor + 14, number, "middle") for place, number in across.ticks()),
        text((across.start + across.end) / 2, floor + 32, title, "middle"),
    ]
    words = " ".join(f"{group['condition']} {group['answer']}".strip() for group in line["groups"])
    return svg("forest", across.end + 8, floor + FOOT, words, parts)


def _row(row: list[Any], y: float, across: Axis) -> Iterator[str]:
    """Yield name, interval and dot of an arm, or the name of a condition."""
    name, *values = row
    if not values:
        yield f'<g class="condition">{text(0, y + 3, name)}</g>'
        return
    kind, ratio, *ends = values
    yield text(across.start - 8, y + 3, name, "end")
    if not ratio:
        yield text(across.start + 8, y + 3, "not comparable")
        return
    if None not in ends:
        start, end = map(across.at, ends)
        yield path(f"interval {kind}", f"M{start:g} {y}H{end:g}")
    yield f'<circle class="{kind}" cx="{across.at(ratio):g}" cy="{y}" r="4"/>'


def finding(line: Line) -> str:
    """Return what a run cost and reached, in a sentence from its numbers."""
    joules, total = line["joules"], sum(line["outcomes"].values())
    total_j, most = sum(joules.values()), max(joules, key=joules.get)
    accuracy = line["curve"][-1][2]
    end = "" if accuracy is None else f", and ended at {quantities.percent(accuracy)} accuracy"
    outcomes = ", ".join(f"{number:,} {word}" for word, number in line["outcomes"].items())
    return (
        f"The {line['rounds']:,} rounds took {quantities.text(line['virtual_s'], 's')} of virtual"
        f" time and {quantities.text(total_j, 'j')} (largest part: {COMPONENT_NAMES[most]},"
        f" {quantities.percent(joules[most] / total_j)}){end}; of {total:,} training tasks:"
        f" {outcomes}."
    )


def plain(words: str) -> str:
    r"""Return words as Markdown that shows them as they are.

    >>> plain("a_b <c>")
    'a\\_b \\<c\\>'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|$&])", r"\\\1", words)


def anchor(key: Key) -> str:
    """Return the anchor of a card."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(("card", *key)))


def data_sets(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the kinds of data sets that a scenario or a study names."""
    for key, value in content.items():
        if key.endswith("dataset.kind"):
            yield value
        elif isinstance(value, Mapping):
            yield from [value["kind"]] if key.endswith("dataset") else data_sets(value)


@cache
def built_in() -> set[str]:
    """Return the kinds of data sets that need no file."""
    return {name for name, _, source in catalogue.listing("datasets").rows if source == "built in"}


def card(key: Key, question: str, line: Line | None) -> str:
    """Return a card: question, figure, finding, command, and how it was measured."""
    subject, name = key
    content = gallery.content(*key)
    base = gallery.content("scenarios", content["scenario"]) if subject == "studies" else {}
    kinds = dict.fromkeys([*data_sets(base), *data_sets(content)])
    level = "###" if name.startswith("papers/") else "##"
    parts = [f"({anchor(key)})=", f"{level} {name.removeprefix('papers/')}", plain(question)]
    if line is None:
        parts.append("Not measured yet.")
    elif line["definition"] != gallery.definition(*key):
        parts.append("**Measured before this file, or a default that it uses, changed.**")
    if line is not None:
        drawn = curves(line) if subject == "scenarios" else [forest(line)]
        found = [finding(line)] if subject == "scenarios" else answers(line)
        parts += [f'<figure class="measured">{"".join(drawn)}</figure>', *map(plain, found)]
    if data := ", ".join(f"`{kind}`" for kind in kinds if kind not in built_in()):
        parts.append(f"Data that you fetch once: {data}, see [](/data.md).")
    option = " --no-train" if subject == "scenarios" and gallery.BLANK in kinds else ""
    parts.append(f"```sh\n{COMMANDS[subject]} {name}{option}\n```")
    return "\n\n".join(parts if line is None else [*parts, origin(line)])


def answers(line: Line) -> list[str]:
    """Return the verdicts of a study on its primary outcome, in a sentence for each condition."""
    return [f"{one['condition']}: {one['answer']}".removeprefix(": ") for one in line["groups"]]


def origin(line: Line) -> str:
    """Return seeds, processor time, date and digest of what was measured."""
    seeds = ", ".join(map(str, line["seeds"]))
    runs = f"{line['num_runs']} runs; seeds" if "num_runs" in line else "Seed"
    if "cpu_s" not in line:
        return f"{runs} {seeds}. Their figures and those of the paper: [](/papers.md)."
    return (
        f"{runs} {seeds}; {quantities.text(line['cpu_s'], 's')} of processor time"
        f" ({plain(line['processor'])}); {line['date']}, fleetsim {line['version']}; digest"
        f" `{line['digest'][:12]}`."
    )


def thumbnail(place: str, key: Key, question: str, line: Line | None) -> str:
    """Return a link to a card, with its figure without words."""
    drawn = "<em>not measured yet</em>"
    if line is not None:
        drawn = curves(line)[0] if key[0] == "scenarios" else forest(line, names=0)
    name = escape(key[1].removeprefix("papers/"))
    link = f'<a class="card" href="{place}.html#{anchor(key)}">'
    return f"{link}<strong>{name}</strong>{drawn}<span>{escape(question)}</span></a>"


def place_of(key: Key) -> str:
    """Return the page of a card: that of its subject, or of its paper."""
    subject, name = key
    words = name.replace("/", "-")
    return next((each for each in TITLES if words.startswith(f"{each}-")), subject)


def pages() -> dict[str, str]:
    """Return the pages of all cards, and the index with their thumbnails, by place."""
    questions = {
        (subject, name): question
        for subject in COMMANDS
        for name, question in catalogue.listing(subject).rows
    }
    lines, found = gallery.stored(), {}
    index = ["# Gallery", doors.doors()["gallery"]["text"]]
    for place, title in TITLES.items():
        keys = [key for key in questions if place_of(key) == place]
        parts = [
            f"# {title}",
            "For users who look for one to start from. After this page you can run it.",
        ]
        for subject, how in HOW.items():
            cards = [card(one, questions[one], lines.get(one)) for one in keys if one[0] == subject]
            heading = [] if place in HOW else [f"## {TITLES[subject]}"]
            parts += [*heading, how, *cards] if cards else []
        found[f"gallery/{place}.md"] = "\n\n".join(parts) + "\n"
        shown = [key for key in keys if key in lines or place in HOW]
        grid = "".join(thumbnail(place, key, questions[key], lines.get(key)) for key in shown)
        index += [f"## [{title}]({place}.md)", f'<div class="cards">{grid}</div>']
    index.append(doors.toctree([f"/gallery/{place}" for place in TITLES], ":hidden:"))
    return found | {"gallery/index.md": "\n\n".join(index)}
