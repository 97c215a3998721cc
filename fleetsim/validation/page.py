"""Page of all sections, within the frame `page.md`, which lists what is not validated.

The same code gives the same page and, under one version of matplotlib, the same bytes of figures.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path

from fleetsim.record import atomic_files
from fleetsim.report.figures import style
from fleetsim.validation import (
    boards,
    channel,
    link_rates,
    other_phones,
    peak_memory,
    people,
    phones,
    queueing,
    radio,
    slowdown,
    transport,
)
from fleetsim.validation.devices import board_training, lower_clock
from fleetsim.validation.tables import Section, table

FOLDER = "validation"
"""Folder of the figures, beside the page."""

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


def render(sections: Iterable[Section]) -> str:
    """Return the page of these sections."""
    sections = list(sections)
    summary = table(
        ("what", "kind", "points", "result"),
        [(v.what, v.kind, str(v.num_points), v.message) for s in sections for v in s.verdicts],
    )
    texts = [f"## {section.title}\n\n{section.text.strip()}\n\n" for section in sections]
    frame = (resources.files("fleetsim.validation") / "page.md").read_text("utf-8")
    return frame.replace("SUMMARY", summary).replace("SECTIONS\n", "".join(texts))


def write(sections: Iterable[Section], folder: Path) -> Path:
    """Write validation.md into a folder, and the figures beside it; return the page's path."""
    sections = list(sections)
    hint = "name a folder that you may write to"
    with atomic_files.one_line_error(folder, "cannot be made", hint):
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for section in sections:
        for stem, figure in section.figures.items():
            svg = style.encode(figure, ["svg"])["svg"]
            atomic_files.write(folder / FOLDER / f"{stem}.svg", svg, hint=hint)
    path = folder / "validation.md"
    atomic_files.write(path, render(sections).encode(), hint=hint)
    return path
