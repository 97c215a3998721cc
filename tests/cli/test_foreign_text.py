"""Text of foreign files on the terminal: no control character of theirs reaches it."""

import ast
import io
import json
import re
from pathlib import Path

import pytest
from rich.progress import Progress
from rich.table import Table
from typer.testing import CliRunner

import fleetsim
from fleetsim.cli.application import app
from fleetsim.host.plain_console import PlainConsole
from fleetsim.record.manifest import write_manifest
from tests.report.made_runs import MadeUp, make_run

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
PACKAGE = Path(fleetsim.__file__).parent
WRITERS = ("typer.echo", "print", "rich.print", "Console", "sys.stdout.write")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_console_prints_control_characters_as_their_codes():
    stream = io.StringIO()
    console = PlainConsole(file=stream, width=200, force_terminal=True, color_system=None)
    table = Table(f"head{EVIL}")
    table.add_row(f"cell{EVIL}")
    console.print(f"line{EVIL}\nnext")
    console.print(table)
    with Progress(console=console) as bar:
        bar.add_task(f"name{EVIL}", total=1.0)

    text = stream.getvalue()
    for word in ("line", "head", "cell", "name"):
        assert rf"{word}\x1b]0;owned" in text
    assert "\nnext\n" in text
    for sequence in ("\x1b]0;", "\x1b[2J", "\x9b", "\u202e"):
        assert sequence not in text


@pytest.mark.parametrize("verb", ["report", "compare", "timeline"])
def test_no_control_character_of_a_run_folder_reaches_the_terminal(verb: str, tmp_path: Path):
    run = make_run(tmp_path / "one", MadeUp())
    texts = {"stop_text": EVIL, "warnings": (EVIL,), "not_slowed_by_heat": (EVIL,)}
    write_manifest(run.folder, run.manifest.model_copy(update=texts))
    words = [verb, str(run.folder)]
    if verb == "compare":
        other = make_run(tmp_path / "two", MadeUp(seed=2))
        words += [str(other.folder), "--different-worlds", "--out", str(tmp_path / "out")]

    ended = CliRunner().invoke(app, words)

    assert ended.exit_code == 0, ended.exception
    assert CONTROL.search(ended.output) is None


@pytest.mark.parametrize(
    "content",
    [
        {f"name{EVIL}": 1}, {"name": EVIL}, {"status": EVIL}, {"name": "x" * 100_000},
        {"device_kinds": {EVIL: "phone"}},
    ],
)  # fmt: skip
def test_no_control_character_of_an_error_reaches_the_terminal(content, tmp_path):
    run = make_run(tmp_path / f"one{EVIL}", MadeUp())
    path = run.folder / "manifest.json"
    data = json.loads(path.read_text()) | content | {"content_sha256": None}
    path.write_text(json.dumps(data))

    with pytest.raises(fleetsim.FleetsimError) as caught:
        fleetsim.open_run(run.folder)

    assert CONTROL.search(str(caught.value)) is None
    assert len(str(caught.value)) < 5000


def test_only_the_plain_console_and_terminal_write_to_the_terminal():
    others = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name in ("cli/terminal.py", "host/plain_console.py"):
            continue
        calls = (n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call))
        others += [f"{name}:{call.lineno}" for call in calls if ast.unparse(call.func) in WRITERS]

    assert others == []
