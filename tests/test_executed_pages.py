"""Pages of docs/learn and docs/how-to, executed by scripts/run-pages, and the faults it finds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for door in ("learn", "how-to") for path in (ROOT / "docs" / door).glob("*.md"))
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


def run_page(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "run-pages"), *options, str(page)]
    return subprocess.run(command, check=False, capture_output=True, encoding="utf-8")


@pytest.fixture
def ended(tmp_path):
    """Run the tiny page with an edit, and return how the runner ended."""
    page = tmp_path / "tiny.md"

    def of(before: str, after: str, *options: str) -> subprocess.CompletedProcess[str]:
        assert TINY.count(before) == 1
        page.write_text(TINY.replace(before, after), encoding="utf-8")
        return run_page(page, *options)

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


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(path, id=path.stem) for path in PAGES])
def test_a_page_runs_and_shows_what_it_says(page):
    result = run_page(page)

    assert result.returncode == 0, result.stderr
