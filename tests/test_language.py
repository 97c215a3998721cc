"""Language of the repository: words that the glossary excludes, and openings of docstrings."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
FOLDERS = (
    "fleetsim",
    "tests",
    "benchmarks",
    "docs",
    "scenarios",
    "studies",
    "devices",
    "radios",
    "scripts",
)
LOOSE = ("README.md", "CONTRIBUTING.md")
EXEMPT = {GLOSSARY, Path(__file__)}


def not_used() -> list[str]:
    table = GLOSSARY.read_text("utf-8").split("## Words that are not used")[1]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def texts() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".md", ".yaml"} and path not in EXEMPT:
                yield path
    yield from (ROOT / name for name in LOOSE)


def prose_of(path: Path) -> str:
    """The text of a file; wrapped lines are joined, so that a phrase over two lines is found."""
    return re.sub(r"\s*\n[\s#]*", " ", path.read_text("utf-8"))


def test_no_file_has_a_word_that_the_glossary_excludes():
    words = re.compile(rf"(?<![\w/])({'|'.join(not_used())})\b", re.IGNORECASE)
    faults = [
        f"{path.relative_to(ROOT)}: ...{prose[max(match.start() - 30, 0) : match.end() + 30]}..."
        for path in texts()
        for prose in [prose_of(path)]
        for match in words.finditer(prose)
    ]

    assert len(not_used()) > 20
    assert faults == []
