"""The verb `docs`: pages and sections of the documentation."""

import webbrowser

import pytest

from fleetsim import bundled

PAGES = {
    "servers.md": "# Servers\n\nRounds.\n\n## Deadlines\n\nA round ends at `deadline_s`.\n",
    "selectors/oort.md": "# Oort\n\n```\n# not a heading: deadline\n```\n\nA rule.\n",
    "decisions/0001-rounds.md": "# Deadline\n\nDeadlines, and why: deadline-s.\n",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name, text in PAGES.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    monkeypatch.setattr(bundled, "folder", lambda kind: tmp_path / kind)
    return tmp_path


def test_pages_are_listed_without_decisions(home, command):
    assert command("docs").out == "selectors/oort  Oort\nservers         Servers\n"


@pytest.mark.parametrize("name", ["selectors/oort", "docs/selectors/oort.md", "oort"])
def test_a_page_is_shown_as_it_is_in_a_pipe(home, command, name):
    assert command("docs", name).out == PAGES["selectors/oort.md"] + "\n"


def test_words_show_the_section_that_has_most_of_them(home, command):
    lines = command("docs", "Deadline-S").out.splitlines()

    assert lines[:3] == ["## Deadlines", "", "A round ends at `deadline_s`."]
    assert lines[3:6] == ["", "From: fleetsim docs servers", "Also:"]
    assert lines[6:] == ["  decisions/0001-rounds: Deadline"]


def test_a_section_has_every_word(home, command):
    assert "From: fleetsim docs selectors/oort" in command("docs", "oort", "rule").out

    error = command("docs", "rounds", "rule").err
    assert "docs: no section has 'rounds rule'; `fleetsim docs` lists the pages" in error


def test_the_browser_opens_the_built_page_at_its_heading(home, command, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert "no built site" in command("docs", "deadlines", "--web").err

    (home / "site").mkdir()
    (home / "site" / "servers.html").touch()
    command("docs", "deadlines", "--web")
    assert opened == [(home / "site" / "servers.html").as_uri() + "#deadlines"]


def test_the_pages_of_this_copy_are_found(command):
    assert "From: fleetsim docs how-to/privacy" in command("docs", "secure", "aggregation").out
