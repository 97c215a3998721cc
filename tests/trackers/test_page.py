"""The page on trackers: its example runs, and is short."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "trackers.md"


def test_the_example_of_the_page_runs_and_tells_what_it_says(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})
    first, *rounds, last = capsys.readouterr().out.splitlines()

    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    assert first == f"quickstart in {Path('runs/told')}, from round 1"
    assert [line.split()[0] for line in rounds] == ["1", "2"]
    assert last.startswith("done ")
