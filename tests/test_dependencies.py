"""The two files of constraints install the requirements of pyproject.toml."""

import pydoc
import re
import tomllib
from pathlib import Path

import pytest

import fleetsim

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TO_TEST_WITH = {"hypothesis", "pytest", "pytest-xdist"}


def lower_bounds(requirements: list[str]) -> dict[str, tuple[int, ...]]:
    """Lowest version of each requirement that names one; nothing else may be in it."""
    matches = {}
    for requirement in requirements:
        name, _, version = requirement.partition(",<")[0].partition(">=")
        if version:
            matches[name.lower()] = number(version)
    return matches


def pinned(file: str) -> dict[str, tuple[int, ...]]:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {name.lower(): number(version) for name, version in pairs}


def number(version: str) -> tuple[int, ...]:
    """3.2 and 3.2.0 are one version."""
    assert re.fullmatch(r"\d+(\.\d+)*", version), version
    parts = [int(part) for part in version.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def test_every_dependency_has_a_lower_bound_and_it_is_what_is_tested():
    bounds = lower_bounds(PROJECT["dependencies"])
    assert len(bounds) == len(PROJECT["dependencies"])
    dev = lower_bounds(PROJECT["optional-dependencies"]["dev"])

    assert pinned("constraints-lowest.txt") == {
        **bounds,
        **{name: version for name, version in dev.items() if name in TO_TEST_WITH},
    }


def test_every_dependency_is_pinned_at_a_version_that_is_allowed():
    pins = pinned("constraints.txt")

    assert {
        name: (low, pins.get(name))
        for name, low in lower_bounds(PROJECT["dependencies"]).items()
        if pins.get(name, ()) < low
    } == {}


def test_the_lock_has_a_hash_for_every_package_and_the_versions_of_the_constraints():
    lines = [line for line in (ROOT / "lock.txt").read_text("utf-8").splitlines() if line[0] != "#"]
    matches = [
        re.fullmatch(r"([a-z0-9.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines
    ]
    locked = {one[1]: number(re.split(r"\.post|b", one[2])[0]) for one in matches if one}
    pins = {name.replace("_", "-"): version for name, version in pinned("constraints.txt").items()}
    extras = PROJECT["optional-dependencies"]
    needed = lower_bounds(PROJECT["dependencies"] + extras["dev"] + extras["docs"])

    assert all(matches)
    assert set(needed) <= set(locked)
    assert {name: locked[name] for name in pins if name in locked} == {
        name: version for name, version in pins.items() if name in locked
    }


def test_every_extra_of_users_has_a_use_in_the_check_of_extras():
    extras = set(PROJECT["optional-dependencies"]) - {"dev", "docs", "pyright"}
    text = (ROOT / "scripts/check-extras").read_text("utf-8")
    listed = re.search(r"^all=\((.*)\)$", text, re.MULTILINE)
    assert listed is not None
    used = {path.stem for path in (ROOT / "scripts/extras").glob("*.py")} - {"lower_bounds"}

    assert set(listed[1].split()) == extras
    assert used == extras


def test_the_public_names_are_sorted_and_all_there():
    assert fleetsim.__all__ == sorted(fleetsim.__all__, key=str)
    for name in fleetsim.__all__:
        assert getattr(fleetsim, name) is not None


def test_dir_and_help_show_the_public_names():
    shown = pydoc.plain(pydoc.render_doc(fleetsim))

    assert dir(fleetsim) == sorted(fleetsim.__all__)
    for words in ("run(", "open_run(folder: ", "class Run(", "class ScenarioError(FaultsError)"):
        assert words in shown


def test_a_selector_needs_a_method_select_alone():
    class First(fleetsim.Selector):
        def select(self, view):
            return view.candidates[: view.wanted]

    class Nothing(fleetsim.Selector):
        pass

    assert fleetsim.check_plugin(First) == "selector"
    with pytest.raises(fleetsim.ScenarioError, match="select"):
        fleetsim.check_plugin(Nothing)
