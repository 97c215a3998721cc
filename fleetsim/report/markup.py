"""HTML pages: one file that opens offline, runs no script, and loads nothing; and small cards.

All text from a run is escaped. Figures are embedded as SVG images, in which no script runs. A
Content-Security-Policy forbids everything but them and the page's own style.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import jinja2
from markupsafe import Markup

from fleetsim.record import atomic_files

T = TypeVar("T")

HINT = "make the folder writable, then ask for the page again"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_text: bool = False
    """True if cells hold words and not numbers."""
    best: frozenset[tuple[int, int]] = frozenset()
    """Cells (row, column) to highlight."""

    @classmethod
    def of(
        cls, columns: Mapping[str, Callable[[T], str]], items: Iterable[T], *, is_text: bool = False
    ) -> Table:
        """Return a row per item, from the functions of its cells by column."""
        rows = [tuple(cell(item) for cell in columns.values()) for item in items]
        return cls(tuple(columns), rows, is_text)


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure in a page."""

    svg: bytes
    description: str
    """Description of the figure, for readers who cannot see it."""
    caption: str
    """Explanation of the figure, in a sentence."""

    @property
    def address(self) -> str:
        """SVG as a data: URI."""
        return _address("svg+xml", self.svg)


def style() -> str:
    """Return the style of all pages."""
    return (resources.files("fleetsim.report") / "style.css").read_text("utf-8")


def digest(text: str) -> str:
    """Return the SHA-256 by which a policy allows a style or a script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _environment(*folders: str) -> jinja2.Environment:
    places = dict.fromkeys((*folders, "report"))
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("fleetsim", each) for each in places]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _address(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def write(path: Path, template: str, *, folder: str = "report", **content: object) -> None:
    """Fill in a template from a folder of the package, and write the page atomically.

    It may import those of this package.
    """
    page = _environment(folder).get_template(template).render(**content)
    # A lone surrogate, as in the name of a file that is not UTF-8, has no bytes.
    atomic_files.write(path, page.encode("utf-8", "replace"), hint=HINT)


def write_static(path: Path, template: str, **content: Any) -> None:
    """Write a page without scripts, whose policy allows its own style."""
    css = style()
    write(path, template, style=Markup(css), style_digest=digest(css), **content)


def card(
    heading: str,
    words: str,
    table: Table,
    *,
    notices: Iterable[str] = (),
    png: bytes | None = None,
    width: int = 640,
    description: str = "",
) -> str:
    """Return a summary with a table and a picture as HTML for the output of a cell.

    The picture has a width in pixels of the page.

    >>> card("a<b", "done", Table(("what", "value"), [("rounds", "5")]))[:30]
    '<div><b>a&lt;b</b> done<table>'
    """
    address = None if png is None else _address("png", png)
    texts = {"heading": heading, "words": words, "table": table, "notices": list(notices)}
    picture = {"address": address, "width": width, "description": description}
    return _environment().get_template("card.html.j2").render(**texts, **picture)
