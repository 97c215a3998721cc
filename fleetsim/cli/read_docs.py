"""The verb `docs`: sections of the documentation that lie in the installed copy."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetsim import bundled
from fleetsim.cli.terminal import console, output, tell
from fleetsim.errors import DataError
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean, folded

_HEADING = re.compile(r"(#{1,4}) (.+)")
_MOST_OTHERS = 12
_LAST = "decisions/"
"""Pages that are not listed, and found after all others."""
_TITLE, _NAME, _TEXT = 3.0, 1.0, 2.0
"""Largest score of a word by its place: the heading, the name of the page, the text."""
_USUAL_LENGTH = 1500
"""Characters of a text in which one occurrence of a word counts half of `_TEXT`."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a page with the text below it, its own subsections left out."""

    page: str
    """Path below the folder of the documentation, without its suffix."""
    heading: str
    text: str
    level: int

    def score(self, words: list[str]) -> float:
        """Return how well words fit, 0 unless each of them occurs."""
        heading, page, text = map(folded, (self.heading, self.page, self.text))
        scores = []
        for word in map(folded, words):
            count = text.count(word)
            in_text = _TEXT * count / (count + len(text) / _USUAL_LENGTH) if count else 0.0
            scores.append(_TITLE * (word in heading) + _NAME * (word in page) + in_text)
        return sum(scores) if all(scores) else 0.0


def docs(words: list[str] | None = None, *, web: bool = False) -> None:
    """Show a page of the documentation by its name, or the section that has most of some words.

    A page below a folder has a short name, too, if no other page has it.
    """
    home = bundled.folder("docs")
    pages = {path.relative_to(home).with_suffix("").as_posix(): path for path in home.rglob("*.md")}
    if not words:
        shown = sorted(page for page in pages if not page.startswith(_LAST))
        width = max(map(len, shown), default=0)
        tell(*(f"{page:<{width}}  {next(_sections(page, pages[page])).heading}" for page in shown))
        return
    asked = " ".join(words).lower().removeprefix("docs/").removesuffix(".md")
    named = [page for page in pages if page.endswith(f"/{asked}")]
    if asked not in pages and len(named) == 1:
        (asked,) = named
    if asked in pages:
        _show(pages[asked].read_text("utf-8"), asked, web=web)
        return
    sections = [section for page, path in pages.items() for section in _sections(page, path)]
    ranked = sorted(
        (section for section in sections if section.score(asked.split())),
        key=lambda each: (each.page.startswith(_LAST), -each.score(asked.split())),
    )
    if not ranked:
        hint = did_you_mean(asked, pages) or "; `fleetsim docs` lists the pages"
        raise DataError(f"docs: no section has {quoted(asked)}{hint}")
    best, others = ranked[0], ranked[1 : 1 + _MOST_OTHERS]
    _show(f"{'#' * best.level} {best.heading}\n{best.text}", best.page, best.heading, web=web)
    tell("", f"From: fleetsim docs {best.page}")
    if others:
        tell("Also:", *(f"  {section.page}: {section.heading}" for section in others))
    if left := len(ranked) - 1 - len(others):
        tell(f"  and {left} more sections")


def _sections(page: str, path: Path) -> Iterator[Section]:
    """Cut a page at its headings; a `#` in a block of code is none."""
    heading, level, lines, is_code = page, 1, list[str](), False
    for line in path.read_text("utf-8").splitlines():
        is_code ^= line.lstrip().startswith("```")
        match = None if is_code else _HEADING.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        if any(lines):
            yield Section(page, heading, "\n".join(lines), level)
        heading, level, lines = match[2], len(match[1]), []
    yield Section(page, heading, "\n".join(lines), level)


def _show(text: str, page: str, heading: str = "", *, web: bool) -> None:
    """Show Markdown: as it is in a pipe, set on a terminal, or the page of the site."""
    if web:
        import webbrowser

        site = bundled.folder("site") / f"{re.sub('README$', 'index', page)}.html"
        if not site.is_file():
            raise DataError(
                f"docs: this copy of fleetsim has no built site ({site}); leave out --web, or run"
                " scripts/site in a checkout"
            )
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
        webbrowser.open(f"{site.as_uri()}#{slug}")
        return
    if not console.is_terminal:
        output(text)
        return
    from rich.markdown import Markdown

    with console.pager(styles=True):
        console.print(Markdown(text))
