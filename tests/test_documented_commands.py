"""Commands of the README and the docs can be run in sequence, in one folder."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.documented_names import unknown_names

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LOOP = re.compile(r"^for (\w+) in ([^;\n]+); do\n(.*?)^done", re.MULTILINE | re.DOTALL)


def unrolled(text: str) -> str:
    """A shell text with its loops written out."""
    return LOOP.sub(
        lambda loop: "".join(loop[3].replace(f"${loop[1]}", word) for word in loop[2].split()), text
    )


def written(text: str) -> Iterator[str]:
    """Run folders that the blocks of a page write, in their order."""
    for language, block in BLOCK.findall(text):
        if language == "sh":
            yield from re.findall(r"fleetsim run .*--out ([^\s;]+)", unrolled(block))
        elif language == "python":
            yield from re.findall(r"""\brun\(.*out="([^"]+)\"""", block)


def test_loops_and_both_languages_are_read():
    text = (
        "```sh\nfor k in a b; do\n  fleetsim run x --out runs/$k\ndone\n```\n"
        '```python\nfleetsim.run(scenario, out="runs/c")\n```\n'
    )

    assert list(written(text)) == ["runs/a", "runs/b", "runs/c"]


def test_no_two_commands_write_into_one_run_folder():
    folders = Counter(folder for page in PAGES for folder in written(page.read_text("utf-8")))

    assert len(folders) >= 3  # README's and others
    assert [folder for folder, times in folders.items() if times > 1] == []


def test_no_block_resumes_what_it_has_just_finished():
    found = []
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text("utf-8")):
            lines = block.splitlines() if language == "sh" else []
            ran = {line for line in lines if "fleetsim " in line and "--resume" not in line}
            resumed = {line.replace(" --resume", "") for line in lines if "--resume" in line}
            found += [f"{page.relative_to(ROOT)}: {line}" for line in ran & resumed]

    assert found == []


def test_names_that_are_neither_bundled_nor_the_readers_own_are_found():
    text = (
        "fleetsim run quickstart, fleetsim study run learning-selectors-quick --jobs 2,\n"
        "fleetsim validate my-scenario.yaml, fleetsim study run STUDY, --study papers/fedgcs-mnist,"
        " --scenario quick-start.\n"
    )

    assert unknown_names(text) == ["papers/fedgcs-mnist", "quick-start"]


def test_commands_name_scenarios_and_studies_that_are_bundled():
    homes = (ROOT / "scenarios", ROOT / "studies")
    heads = [path for home in homes for path in home.rglob("*.yaml")]
    texts = [*PAGES, ROOT / "weights" / "README.md", *heads]
    found = {path: unknown_names(path.read_text("utf-8")) for path in texts}

    assert len(texts) > 100
    assert {path: names for path, names in found.items() if names} == {}
