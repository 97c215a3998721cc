"""Pages of docs/learn and docs/how-to, executed by scripts/run-pages, and the faults it finds."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.command_server import served

ROOT = Path(__file__).parents[1]
TINY = """\
# Tiny

```python
# file: one.py
ONE = 1
```

```sh
python -c 'import one; print("seeds:", one.ONE + 4, "in 0.25 s"); print("a"); print("end")'
```

```text
seeds: 7 in 0.5 s
...
end
```

<!-- exit 3 -->
```sh
exit 3
```

```python
from one import ONE
two = ONE + ONE
```

```python
print("two is", two)
```

```text
two is 2
```
"""


def run_pages(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "run-pages"), *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, encoding="utf-8")


@pytest.fixture
def ended(tmp_path):
    """Run the tiny page with an edit, and return how the runner ended."""
    page = tmp_path / "tiny.md"

    def of(before: str, after: str, *options: str) -> subprocess.CompletedProcess[str]:
        assert TINY.count(before) == 1
        page.write_text(TINY.replace(before, after), encoding="utf-8")
        return run_pages(*options, page)

    return of


def test_a_page_whose_outputs_have_the_form_of_those_of_now_passes(ended):
    result = ended("7 in", "8 in")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("before", "after", "line", "message"),
    [
        ("seeds: 7", "rounds: 7", 12, "the output differs"),
        ("\nend\n", "\nthe end\n", 12, "the output differs"),
        ("two is 2\n", "", 32, "the output differs"),
        ("two is 2\n", "two is 2\nthree\n", 32, "the output differs"),
        ("\nexit 3", "\nfalse; exit 3", 19, "exit status 1, not 3"),
        ("<!-- exit 3 -->\n", "\n", 19, "exit status 3, not 0"),
        ("print(\"two is\", two)", "print(one)", 28, "NameError"),
        ("```sh\nexit 3", "~~~sh\nexit 3", None, "a fence is"),
        ("```text\ntwo", "And:\n\n```text\ntwo", 34, "not right after"),
        ("<!-- exit 3 -->\n```sh\nexit 3", "<!-- long: 1 h -->\n```sh\nfleetsim rum", 19, "rum"),
    ],
)  # fmt: skip
def test_a_fault_is_found_and_its_file_and_line_are_named(ended, before, after, line, message):
    result = ended(before, after)

    assert result.returncode == 1
    assert message in result.stderr
    assert "tiny.md" in result.stderr
    assert line is None or re.search(
        rf'tiny\.md(:|:\S+", line ){line}\b', result.stdout + result.stderr
    )


def test_outputs_of_now_are_written_and_omitted_lines_stay_omitted(ended, tmp_path):
    result = ended("two is 2\n", "", "--write")

    assert result.returncode == 0, result.stderr
    assert (tmp_path / "tiny.md").read_text("utf-8") == TINY.replace("7 in 0.5", "5 in 0.25")


@pytest.mark.slow
@pytest.mark.parametrize(("options", "is_found"), [("", False), (" --set server.cohrot=3", True)])
def test_a_long_command_is_checked_and_not_run(ended, options, is_found):
    result = ended(
        "<!-- exit 3 -->\n```sh\nexit 3",
        f"<!-- long: 9 minutes -->\n```sh\nexit 4\nfleetsim run quickstart \\\n --quiet{options}",
    )

    assert ("did you mean 'cohort'" in result.stdout + result.stderr) == is_found
    assert result.returncode == int(is_found)


SHELL = """
fleetsim vaildate; echo $?
rm -rf a; mkdir a; cd a; fleetsim copy scenario quickstart b.yaml; fleetsim list devices | head -2
FLEETSIM_NUMERICS=swift fleetsim run b.yaml; echo $?
fleetsim run b.yaml --no-train --set stop.rounds=99999 --out c 2>/dev/null &
until [ -e c/manifest.json ]; do sleep 0.1; done
kill -TERM $!; wait $!; echo $?
"""


@pytest.mark.slow
def test_a_forked_command_ends_as_the_real_one(tmp_path, monkeypatch):
    def ended():
        command = ["bash", "-c", SHELL]
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)

    real = ended()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with served(tmp_path):
        forked = ended()

    assert real.stdout.endswith("\n143\n")
    assert (forked.stdout, forked.stderr) == (real.stdout, real.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["learn", "how-to"])
def test_pages_run_and_show_what_they_say(folder):
    """Pages of a folder share a server of commands, which takes seconds to begin."""
    pages = sorted((ROOT / "docs" / folder).glob("*.md"))
    result = run_pages(*pages)

    assert len(pages) > 5
    assert result.returncode == 0, result.stderr
