"""Maps of the packages: every module and subpackage is listed, once, and exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import fleetsim

ROOT = Path(fleetsim.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
ENTRY = re.compile(r"^- `([a-z0-9_]+)`: \S", re.MULTILINE)
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))
MOST_MODULES = 17


def children_of(package: Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def name_of(package: Path) -> str:
    return ".".join(package.relative_to(ROOT.parent).parts)


def test_every_package_lists_what_is_in_it():
    wrong = {}
    for package in PACKAGES:
        docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
        listed, there = ENTRY.findall(docstring), children_of(package)
        if sorted(listed) != sorted(there):
            wrong[name_of(package)] = there ^ set(listed) or "listed twice"

    assert wrong == {}


def test_every_package_is_small_enough_to_read():
    sizes = {name_of(package): len(list(package.glob("*.py"))) - 1 for package in PACKAGES}

    assert {name: size for name, size in sizes.items() if size > MOST_MODULES} == {}


def test_the_architecture_page_maps_every_package():
    rows = re.findall(r"^\| (`[^|]*`) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    folders = {f"`{package.relative_to(ROOT).as_posix()}`" for package in PACKAGES[1:]}

    assert folders - set(" ".join(rows).split()) == set()


def test_the_architecture_page_links_to_definitions_that_exist():
    links = re.findall(r"\[`(\w+)`\]\(\.\./(fleetsim/[^)]+)\)", PAGE.read_text("utf-8"))
    broken = [
        f"{name} in {path}"
        for name, path in links
        if not re.search(
            rf"^\s*(def|class) {name}\b|^{name}\b.* = ",
            (ROOT.parent / path).read_text("utf-8") if (ROOT.parent / path).is_file() else "",
            re.MULTILINE,
        )
    ]

    assert len(links) > 30
    assert broken == []
