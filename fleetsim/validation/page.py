"""Pages of sections by subject, and one with all verdicts that lists what is not validated.

The same code gives the same pages and, under one version of matplotlib, the same bytes of figures.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetsim.record import atomic_files
from fleetsim.report.figures import style
from fleetsim.validation import (
    board_training,
    boards,
    channel,
    link_rates,
    lower_clock,
    other_phones,
    peak_memory,
    people,
    phones,
    queueing,
    radio,
    slowdown,
    transport,
)
from fleetsim.validation.tables import Section, filled

FOLDER = "validation"
"""Folder of the pages of sections and of their figures, beside the page of verdicts."""

SECTION_MAKERS: Mapping[str, Callable[[], Section]] = {
    "boards": boards.section,
    "the energy of FedGCS": boards.energy_section,
    "boards in PyTorch": board_training.section,
    "overhead of a layer": boards.layer_section,
    "phones": phones.section,
    "a lower clock": lower_clock.section,
    "other phones": other_phones.section,
    "memory": peak_memory.section,
    "credits and heat": slowdown.section,
    "fading": channel.section,
    "link rates": link_rates.section,
    "radios": radio.section,
    "transport": transport.section,
    "waiting": queueing.section,
    "bundled traces": people.section,
    "published traces": people.published_section,
}
"""Functions that make a section each, by the name that is shown meanwhile."""


@dataclass(frozen=True, slots=True)
class Page:
    """Page of some sections."""

    title: str
    subject: str
    """Knowledge that it gives, as the end of a sentence."""
    sections: tuple[str, ...]
    """Keys of `SECTION_MAKERS`."""


PAGES: Mapping[str, Page] = {
    "boards": Page(
        "Validation: boards and instances",
        "how far seconds and joules of boards and t2 instances are from measured ones",
        ("boards", "the energy of FedGCS", "boards in PyTorch", "overhead of a layer"),
    ),
    "phones": Page(
        "Validation: phones",
        "how far training times of phones are from measured ones, and how far scaled ones",
        ("phones", "a lower clock", "other phones"),
    ),
    "memory-and-heat": Page(
        "Validation: memory, credits and heat",
        "how far peak memory is from readings, and what CPU credits and heat rest on",
        ("memory", "credits and heat"),
    ),
    "fading": Page(
        "Validation: fading and rates of links",
        "whether the channel keeps its laws, and how its default rates stand to measured ones",
        ("fading", "link rates"),
    ),
    "radios": Page(
        "Validation: power of radios",
        "how far the power and the round trips of radios are from measured ones",
        ("radios",),
    ),
    "transfers": Page(
        "Validation: transfers and waiting",
        "how far transfers over TCP are from measured ones, and whether waiting keeps its laws",
        ("transport", "waiting"),
    ),
    "traces": Page(
        "Validation: traces of people and networks",
        "whether fleetsim counts in traces what other programs count",
        ("bundled traces", "published traces"),
    ),
}
"""Pages by the stem of their files."""


def verdicts(sections: Mapping[str, Section]) -> str:
    """Return the page with the verdicts of sections, by their keys in `SECTION_MAKERS`."""
    placed = [
        (stem, sections[name])
        for stem, page in PAGES.items()
        for name in page.sections
        if name in sections
    ]
    return filled("verdicts", placed=placed, folder=FOLDER)


def render(stem: str, sections: Mapping[str, Section]) -> str:
    """Return the page of this stem with those of its sections that are given; empty if none is."""
    page = PAGES[stem]
    found = [sections[name] for name in page.sections if name in sections]
    return filled("page", page=page, sections=found) if found else ""


def write(sections: Mapping[str, Section], folder: Path) -> Path:
    """Write validation.md into a folder, and pages and figures below it; return the path of it."""
    hint = "name a folder that you may write to"
    with atomic_files.one_line_error(folder, "cannot be made", hint):
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for section in sections.values():
        for stem, figure in section.figures.items():
            svg = style.encode(figure, ["svg"])["svg"]
            atomic_files.write(folder / FOLDER / f"{stem}.svg", svg, hint=hint)
    for stem in PAGES:
        if text := render(stem, sections):
            atomic_files.write(folder / FOLDER / f"{stem}.md", text.encode(), hint=hint)
    path = folder / "validation.md"
    atomic_files.write(path, verdicts(sections).encode(), hint=hint)
    return path
