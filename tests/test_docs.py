"""Documentation: what scripts/docs writes, package sizes, and links into the code."""

import re
from collections import Counter
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from fleetsim.scenario import load
from fleetsim.selectors import KINDS
from scripts.site_pages import staging
from tests.documented_names import unknown_names

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in (ROOT / "fleetsim").rglob("__init__.py"))
MOST_MODULES = 17


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    loader = SourceFileLoader("docs_script", str(ROOT / "scripts" / "docs"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(docs) -> dict[Path, str]:
    pages: dict[Path, str] = docs.pages()
    return pages


def test_tables_and_package_maps_are_those_of_the_code(pages):
    wrong = [path for path, text in pages.items() if path.read_text("utf-8") != text]

    assert wrong == [], "run scripts/docs"


def test_every_table_stands_in_one_page(docs, pages):
    marked = [match[1] for text in pages.values() for match in docs.MARK.finditer(text)]

    assert sorted(marked) == sorted(docs.TABLES)


def test_a_selector_without_a_page_gets_one_with_rule_keys_and_source(docs, tmp_path):
    (tmp_path / "oort.md").touch()
    new = docs.kinds_of_parts.new_pages(tmp_path)
    page = docs.kinds_of_parts.with_blocks(docs.with_tables(new[tmp_path / "fixed.md"]))

    assert {path.stem for path in new} == {*KINDS} - {"oort"}
    assert "| `clients` | required |" in page
    assert "Every choice takes" in page.partition("## Settings")[0]
    assert "Source: Tong et al." in page.partition("## Source")[2]


class Undefined(NamedTuple):
    round: int


class NeverNull(NamedTuple):
    round: int
    """Number of the round. Null: it is the first."""


@pytest.mark.parametrize("row", [Undefined, NeverNull])
def test_a_column_needs_a_docstring_which_says_when_it_is_null(docs, row):
    with pytest.raises(SystemExit, match=rf"{row.__name__}\.round needs a docstring"):
        list(docs.columns("rounds", row))


def test_every_package_is_small_enough_to_read():
    sizes = {package: len(list(package.glob("*.py"))) - 1 for package in PACKAGES}

    assert {package: size for package, size in sizes.items() if size > MOST_MODULES} == {}


def test_the_architecture_page_links_to_definitions_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    links = re.findall(r"\[`(\w+)`\]\(\.\./(fleetsim/[^)]+)\)", text)
    broken = [
        f"{name} in {path}"
        for name, path in links
        if not re.search(
            rf"^\s*(def|class) {name}\b|^{name}\b.* = ",
            (ROOT / path).read_text("utf-8") if (ROOT / path).is_file() else "",
            re.MULTILINE,
        )
    ]

    assert len(links) > 30
    assert broken == []


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LOOP = re.compile(r"^for (\w+) in ([^;\n]+); do\n(.*?)^done", re.MULTILINE | re.DOTALL)


def unrolled(text: str) -> str:
    """A shell text with its loops written out."""
    return LOOP.sub(
        lambda loop: "".join(loop[3].replace(f"${loop[1]}", word) for word in loop[2].split()), text
    )


def written(text: str) -> Iterator[str]:
    """Run folders that the blocks of a page begin, in their order."""
    for language, block in BLOCK.findall(text):
        if language == "sh":
            command = r"fleetsim run (?!.*--resume).*--out ([^\s;]+)"
            yield from re.findall(command, unrolled(block).replace("\\\n", " "))
        elif language == "python":
            yield from re.findall(r"""\brun\(.*out="([^"]+)\"""", block)


def test_the_scenario_of_the_readme_is_valid(tmp_path):
    text = (ROOT / "README.md").read_text("utf-8")
    [scenario] = [block for language, block in BLOCK.findall(text) if language == "yaml"]
    file = tmp_path / "my-fleet.yaml"
    file.write_text(scenario, "utf-8")

    assert load(file).fleet.size == 50


HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
READ_PAGES = [
    path
    for path in [*(ROOT / name for name in staging.BESIDE), *(ROOT / "docs").rglob("*.md")]
    if path != ROOT / "README.md" and not re.match(r"\d{4}-|benchmarks", path.name)
]
"""Pages of the site without its home, decisions and one that a command writes."""


def test_a_page_begins_with_its_reader_and_what_it_is_for():
    begin = re.compile(r"# .+\n\n?For [^\n]+[.:] [Aa]fter this (page|lesson) you ")
    faults = [page for page in READ_PAGES if not begin.match(page.read_text("utf-8"))]

    assert len(READ_PAGES) >= 110
    assert faults == []


def test_a_how_to_has_a_question_as_its_title_and_at_most_a_page_by_hand():
    texts = {page.stem: page.read_text("utf-8") for page in HOW_TO}
    by_hand = {
        name: re.sub(r"^```text\n.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL)
        for name, text in texts.items()
    }

    assert len(texts) >= 13  # three of sixteen are pages that also look up
    assert [name for name, text in texts.items() if not re.match(r"# .+\?\n", text)] == []
    assert {name for name, text in by_hand.items() if len(text.split()) > 400} == set()


def test_no_two_commands_write_into_one_run_folder():
    """Pages that `scripts/run-pages` executes have a folder each."""
    executed = {ROOT / "docs" / door for door in ("how-to", "learn")}
    folders = Counter(
        (page if page.parent in executed else None, folder)
        for page in PAGES
        for folder in written(page.read_text("utf-8"))
    )

    assert len(folders) >= 3  # README's and others
    assert [folder for folder, times in folders.items() if times > 1] == []


def test_no_block_resumes_what_it_has_just_finished():
    faults = []
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text("utf-8")):
            lines = block.splitlines() if language == "sh" else []
            ran = {line for line in lines if "fleetsim " in line and "--resume" not in line}
            resumed = {line.replace(" --resume", "") for line in lines if "--resume" in line}
            faults += [f"{page.relative_to(ROOT)}: {line}" for line in ran & resumed]

    assert faults == []


def test_commands_name_scenarios_and_studies_that_are_bundled():
    homes = (ROOT / "scenarios", ROOT / "studies")
    heads = [path for home in homes for path in home.rglob("*.yaml")]
    texts = [*PAGES, ROOT / "weights" / "README.md", *heads]
    faults = {path: unknown_names(path.read_text("utf-8")) for path in texts}

    assert len(texts) > 100
    assert {path: names for path, names in faults.items() if names} == {}
