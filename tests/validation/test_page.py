"""docs/validation.md is what the command makes: the same words, and numbers to their last digit."""

import math
import re
from functools import cache
from pathlib import Path

import pytest

from fleetsim.validation import page, people
from fleetsim.validation.tables import Section

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation.md"
NUMBER = re.compile(r"(?<![A-Za-z0-9@._/-])[+-]?\d+(?:\.\d+)?(?:e-\d+)?")
NEEDS_DATA = "published traces"
FAST = {"boards", "the energy of FedGCS", "boards in PyTorch", "credits and heat"}


def split(text: str) -> dict[str, str]:
    """Parts of a page by their titles."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def last_digit(text: str) -> float:
    mantissa, _, exponent = text.partition("e")
    _, _, decimals = mantissa.partition(".")
    return 10.0 ** (int(exponent or 0) - len(decimals))


def assert_same(made: str, committed: str) -> None:
    """The same words; numbers differ by their last digit at most, as on another host."""
    assert NUMBER.sub("#", made).split() == NUMBER.sub("#", committed).split()
    for one, other in zip(NUMBER.findall(made), NUMBER.findall(committed), strict=True):
        most = 1.01 * max(last_digit(one), last_digit(other))
        assert math.isclose(float(one), float(other), rel_tol=0.0, abs_tol=most), (one, other)


@cache
def section_of(name: str) -> Section:
    return page.SECTION_MAKERS[name]()


def verdicts(section: Section) -> str:
    return page.render([section]).split("## Summary\n\n")[1].split("\n\n")[0]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in page.SECTION_MAKERS
    ],
)
def test_a_section_and_its_summary_are_what_the_command_makes(name, request, monkeypatch):
    if name == NEEDS_DATA:
        real_trace = request.getfixturevalue("real_trace")
        home = {real_trace(trace).parents[1] for trace in people.PUBLISHED}
        monkeypatch.setenv("FLEETSIM_DATA", str(home.pop()))
    section, committed = section_of(name), split(PAGE.read_text(encoding="utf-8"))

    assert_same(section.text.strip(), committed[section.title].strip())
    lines = committed["Summary"].strip().splitlines()
    for line in verdicts(section).splitlines()[2:]:
        named = [other for other in lines if other.split("|")[1] == line.split("|")[1]]
        assert len(named) == 1
        assert_same(line, named[0])


def test_head_and_limits_are_what_the_command_writes():
    text = PAGE.read_text(encoding="utf-8")
    empty = page.render([])

    assert text.startswith(empty.split("## Summary")[0])
    assert split(text)["What is not validated"] == split(empty)["What is not validated"]
    assert len(split(text)) == len(page.SECTION_MAKERS) + 2


def test_every_figure_of_the_page_is_there_and_no_other():
    named = set(re.findall(r"\]\(validation/(\S+\.svg)\)", PAGE.read_text(encoding="utf-8")))

    assert named == {path.name for path in (PAGE.parent / page.FOLDER).iterdir()}


def test_a_command_writes_the_page_and_the_committed_figure(tmp_path):
    sections = [section_of("credits and heat")]
    written = page.write(sections, tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}

    assert names == {"validation.md", "validation/t2-credits.svg"}
    assert written.read_text(encoding="utf-8") == page.render(sections)
    drawn, committed = (
        (folder / "validation" / "t2-credits.svg").read_text(encoding="utf-8")
        for folder in (tmp_path, PAGE.parent)
    )
    version = re.compile(r"Matplotlib v\S+,")
    if version.findall(drawn) != version.findall(committed):
        pytest.skip("another version of matplotlib draws other bytes")
    assert drawn == committed


def test_without_its_data_the_section_says_how_to_get_it(monkeypatch):
    monkeypatch.delenv("FLEETSIM_DATA", raising=False)
    section = people.published_section()

    assert section.verdicts[0].message == "not checked: no data"
    for name, where in people.PUBLISHED.items():
        assert f"`{name}` ({where})" in section.text
    assert "$FLEETSIM_DATA/traces/NAME" in section.text
