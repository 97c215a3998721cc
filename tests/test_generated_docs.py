"""Tables of docs that follow from code are as `scripts/docs.py` writes them."""

import pytest

from scripts import docs


@pytest.mark.parametrize("path", docs.PAGES, ids=lambda path: path.name)
def test_the_page_has_what_the_code_says(path):
    page = path.read_text("utf-8")

    assert docs.PAGES[path](page) == page, "run scripts/docs.py"


def test_a_kind_without_a_section_gets_one_with_its_settings():
    kind, (begin, end) = "oort", docs.marks("settings of oort")
    page = docs.ROOT.joinpath("docs/selectors.md").read_text("utf-8")
    before, _, rest = page.partition(f"## `{kind}`\n")
    without = before + rest[rest.index("## `afl`\n") :]
    again = docs.selectors(without)
    section = again.partition(f"## `{kind}`\n")[2].partition("\n## ")[0]

    assert section.startswith("\nUseful and fast clients")
    assert begin in section
    assert section.rstrip().endswith(end.rstrip())
    assert "| `pacer_every` | `window` | Interval of the pacer's comparisons:" in section
    with pytest.raises(ValueError, match=r"settings of afl: .* once each"):
        docs.selectors(page + docs.marks("settings of afl")[0])
