"""Text of foreign files on the terminal: no control character of theirs reaches it."""

import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.progress import Progress
from rich.table import Table
from typer.testing import CliRunner

import fleetsim
from fleetsim.cli.application import app
from fleetsim.errors import DataError
from fleetsim.host.plain_console import PlainConsole
from fleetsim.record.manifest import write_manifest
from tests.report.made_runs import MadeUp, make_run

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
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


@pytest.mark.parametrize(
    ("column", "word", "message"),
    [
        ("device", f"phone{EVIL}", "which cannot be shown"),
        ("device", "x" * 100_000, "which cannot be shown"),
        ("outcome", "dleivered", "not one of delivered, "),
    ],
)
def test_words_of_a_table_that_no_run_writes_are_refused(
    column: str, word: str, message: str, tmp_path: Path
):
    run = make_run(tmp_path / "one", MadeUp())
    path = run.folder / "tasks.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index(column)
    words = pa.array([word] * table.num_rows)
    pq.write_table(table.set_column(place, table.schema.field(place), words), path)
    loose = {"table_digests": {**(run.manifest.table_digests or {}), "tasks": "0" * 64}}
    write_manifest(run.folder, run.manifest.model_copy(update=loose))

    ended = CliRunner().invoke(app, ["report", str(run.folder)])

    assert isinstance(ended.exception, DataError)
    assert message in str(ended.exception)
    assert CONTROL.search(str(ended.exception)) is None
    assert len(str(ended.exception)) < 1000
