"""Tables of docs about kinds are those of the settings classes."""

import pytest

from scripts import kinds_of_parts as docs


@pytest.mark.parametrize("path", docs.PAGES, ids=lambda path: path.name)
def test_the_page_has_what_the_code_says(path):
    page = path.read_text("utf-8")

    assert docs.with_tables(page) == page, "run scripts/kinds_of_parts.py"


def test_every_table_stands_in_one_page():
    text = "".join(path.read_text("utf-8") for path in docs.PAGES)

    assert sorted(match[1] for match in docs.MARK.finditer(text)) == sorted(docs.TABLES)


def test_a_kind_without_a_section_gets_one_with_its_keys():
    page = docs.PAGES[0].read_text("utf-8")
    before, _, rest = page.partition("## `oort`\n")
    again = docs.with_tables(before + rest[rest.index("## `afl`\n") :])
    section = again.partition("## `oort`\n")[2].partition("\n## ")[0]

    assert section.startswith("\nUseful and fast clients, by loss and duration")
    assert "| `pacer_every` | `window` | Interval of the pacer's comparisons: once per" in section
    assert "(`window`, `round`) |" in section
    assert "the first T; with `preferred_percentile: null` alone |" in section
    assert "does not fall |" in section
