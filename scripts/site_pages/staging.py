"""Sources of the site: pages of docs/ and those beside it, copied with mended links."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "develop/contributing.md",
    "CHANGELOG.md": "develop/changelog.md",
    "SECURITY.md": "develop/security.md",
    "weights/README.md": "reference/bundled/weights.md",
    "measurements/README.md": "reference/bundled/measurements.md",
    **{
        path.relative_to(ROOT).as_posix(): f"reference/bundled/trace-{path.parent.name}.md"
        for path in sorted((ROOT / "traces").glob("*/README.md"))
    },
}
"""Pages outside of docs/, with their places on the site."""
CHILDREN = "\n```{toctree}\n:hidden:\n:glob:\n\n**\n```\n"
"""End of an index page: all other pages of its folder in the navigation."""
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def place_of(path: Path) -> str | None:
    """Return the place on the site of a file of the repository, None if it has none."""
    name = path.relative_to(ROOT).as_posix()
    if name in BESIDE:
        return BESIDE[name]
    if name.startswith("docs/") and path.suffix in {".md", ".svg"}:
        return name.removeprefix("docs/").replace("README", "index")
    return None


def mended(text: str, page: Path, place: str) -> str:
    """Return a page whose links suit its place on the site.

    Links to files that are no pages become links to a copy in `files/`, which Sphinx offers as a
    download; those to folders become their text.
    """

    def link(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]  # Sphinx reports it
        if target.is_dir():
            return match[1]
        there = place_of(target) or f"files/{target.relative_to(ROOT).as_posix()}"
        name = os.path.relpath(there, Path(place).parent)
        return f"[{match[1]}]({name}{match[3] or ''})"

    return _outside_of_fences(lambda part: LINK.sub(link, part), text)


def linked_files(text: str, page: Path) -> set[Path]:
    """Return the files of the repository without a place on the site to which a page links."""
    found = ((page.parent / match[2]).resolve() for match in LINK.finditer(FENCE.sub("", text)))
    return {
        path
        for path in found
        if path.is_file() and path.is_relative_to(ROOT) and place_of(path) is None
    }


def _outside_of_fences(change: Callable[[str], str], text: str) -> str:
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def stage(
    folder: Path, generated: Mapping[str, str], completed: Mapping[str, str], after_readme: str
) -> None:
    """Write the sources of the site into a new folder: copied pages, and generated ones.

    `completed` are pages of docs/, mended, with generated parts. The home page ends with
    `after_readme`, other index pages of docs/ with their `CHILDREN`.

    Raises:
        SystemExit: a generated page has the place of a page that is written by hand.
    """
    shutil.rmtree(folder, ignore_errors=True)
    written = {
        place: path
        for path in [
            *(ROOT / name for name in BESIDE),
            *sorted(path for path in (ROOT / "docs").rglob("*") if path.is_file()),
        ]
        if (place := place_of(path)) is not None
    }
    if twice := written.keys() & generated.keys():
        raise SystemExit(f"site: both written by hand and generated: {', '.join(sorted(twice))}")
    endings = {place: CHILDREN for place in written if place.endswith("/index.md")}
    endings["index.md"] = after_readme
    for place, path in written.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".svg":
            shutil.copyfile(path, target)
            continue
        text = path.read_text("utf-8")
        whole = completed.get(place) or mended(text, path, place) + endings.get(place, "")
        target.write_text(whole, encoding="utf-8")
        for linked in linked_files(text, path):
            copy = folder / "files" / linked.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(linked, copy)
    for place, text in generated.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
