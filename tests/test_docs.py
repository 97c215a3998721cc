"""Documentation: what scripts/docs writes, package sizes, and links into the code."""

import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in (ROOT / "fleetsim").rglob("__init__.py"))
MOST_MODULES = 17
MARK = "<!-- {}: written by scripts/docs -->\n\n"


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


def test_a_table_keeps_cells_by_hand_and_drops_rows_without_code(docs):
    head = MARK.format("keys of transport") + "| key | default | why |\n|---|---|---|\n"
    keys = [key for key in docs.TcpSettings.model_fields if key != "kind"]
    old = "".join(f"| `{key}` | old | a \\| b of {key} |\n" for key in reversed(keys))
    rows = docs.with_tables(f"{head}{old}| `gone` | 1 | x |\n\nText.\n", "page.md").split("\n")[4:]

    assert rows[0] == "| `handshake_round_trips` | `2` | a \\| b of handshake_round_trips |"
    assert [row.split("`")[1] for row in rows[:-3]] == keys
    assert rows[-3:] == ["", "Text.", ""]


def test_a_row_that_lacks_cells_by_hand_is_refused_with_its_place(docs):
    page = MARK.format("commands") + "| command | options | does |\n|---|---|---|\n"

    with pytest.raises(SystemExit, match=r"page.md: .*'commands' needs .*fleetsim run.* with does"):
        docs.with_tables(page, "page.md")


def test_a_map_lists_new_modules_and_forgets_old_ones(docs, tmp_path):
    for name, text in {
        "old": "Old.",
        "new": "N" * 90 + ": more",
        "wide": "W, " * 30 + "W.",
    }.items():
        (tmp_path / f"{name}.py").write_text(f'"""{text}"""\n')
    before = '"""Package.\n\n- `gone`: nothing\n  at all.\n- `old`: what\n  it was.\n"""\nx = 1\n'

    entries = "- `old`: Old.\n- `new`: " + "N" * 90 + ".\n- `wide`: " + "W, " * 29 + "W.\n"
    assert docs.with_map(before, tmp_path) == f'"""Package.\n\n{entries}"""\nx = 1\n'


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


def test_a_selector_without_a_section_gets_one_with_its_keys(docs):
    page = (ROOT / docs.kinds_of_parts.PAGE).read_text("utf-8")
    before, _, rest = page.partition("## `oort`\n")
    bare = docs.kinds_of_parts.with_sections(before + rest[rest.index("## `afl`\n") :])
    again = docs.with_tables(bare, docs.kinds_of_parts.PAGE)
    section = again.partition("## `oort`\n")[2].partition("\n## ")[0]

    assert section.startswith("\nUseful and fast clients, by loss and duration")
    assert "| `pacer_every` | `window` | Interval of the pacer's comparisons: once per" in section
    assert "(`window`, `round`) |" in section
    assert "the first T; with `preferred_percentile: null` alone |" in section
    assert "does not fall |" in section
