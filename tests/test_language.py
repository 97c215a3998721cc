"""Language of the repository: words that are not used, and openings of docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TITLE = "## Words that are not used"
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
EXEMPT = {Path(__file__)}
QUESTION = re.compile(r"(What|Whether|How|Who|Whose|Whom|Where|When|Which|Why)\b")


def not_used() -> list[str]:
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split(TITLE)[1]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def texts() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".md", ".yaml"} and path not in EXEMPT:
                yield path
    yield from (ROOT / name for name in LOOSE)


def prose_of(path: Path) -> str:
    """The text of a file above that list, in one line, so that a phrase over two lines is found."""
    return re.sub(r"\s*\n[\s#]*", " ", path.read_text("utf-8").split(TITLE)[0])


def test_no_file_has_a_word_that_is_not_used():
    words = re.compile(rf"(?<![\w/])({'|'.join(not_used())})\b", re.IGNORECASE)
    faults = [
        f"{path.relative_to(ROOT)}: ...{prose[max(match.start() - 30, 0) : match.end() + 30]}..."
        for path in texts()
        for prose in [prose_of(path)]
        for match in words.finditer(prose)
    ]

    assert len(not_used()) > 20
    assert faults == []


def documented(path: Path) -> Iterator[tuple[int, str]]:
    """Line and docstring of a module, its classes, functions and attributes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield node.lineno, docstring


@pytest.mark.parametrize("folder", ["fleetsim", "tests", "benchmarks", "scripts"])
def test_no_docstring_opens_like_a_question(folder):
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {docstring.splitlines()[0]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, docstring in documented(path)
        if QUESTION.match(docstring)
    ]

    assert faults == []
