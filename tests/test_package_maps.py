"""Maps of the packages: every module and subpackage is listed, once, and exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_package_lists_what_is_in_it(package: Path):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    listed = ENTRY.findall(docstring)

    assert sorted(listed) == sorted(children_of(package))


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_package_is_small_enough_to_read(package: Path):
    assert len(list(package.glob("*.py"))) - 1 <= MOST_MODULES


@pytest.mark.parametrize("package", PACKAGES[1:], ids=name_of)
def test_the_architecture_page_maps_every_package(package: Path):
    folder = "/".join(package.relative_to(ROOT).parts)
    mapped = re.findall(r"^\| (`[^|]*`) \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert f"`{folder}`" in " ".join(mapped).split()


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
