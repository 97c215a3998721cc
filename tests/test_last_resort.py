"""Messages of the command line about its own bugs, and about output that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fleetsim import cli
from fleetsim.cli import entry

NEEDS_A_FULL_DEVICE = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


def fleetsim(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleetsim.cli", *words],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


@pytest.mark.parametrize("fault", [RuntimeError("a\nb" + 1000 * "x"), OSError(28, "full", "a")])
def test_a_bug_is_one_line_and_its_traceback_is_in_a_file(fault, tmp_path, monkeypatch, capsys):
    def broken(**_: object) -> None:
        raise fault

    monkeypatch.setattr(entry, "app", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["fleetsim", "run", "a b"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    (line,) = capsys.readouterr().err.splitlines()
    (path,) = tmp_path.iterdir()
    kept = path.read_text("utf-8")

    assert end.value.code == 1
    assert line.startswith(f"error: unexpected {type(fault).__name__}: ")
    assert line.endswith(f"this is a bug of fleetsim, please report it with {path}")
    assert len(line) < 600
    assert "\nfleetsim run 'a b'\n" in kept
    assert "Traceback (most recent call last):" in kept
    assert ", in broken\n" in kept


def test_where_no_file_can_be_written_the_traceback_is_shown(tmp_path, monkeypatch, capsys):
    def broken(**_: object) -> None:
        raise RuntimeError("a")

    monkeypatch.setattr(entry, "app", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit) as end:
        cli.main()
    shown = capsys.readouterr().err

    assert end.value.code == 1
    assert "Traceback (most recent call last):" in shown
    assert "(no file: No such file or directory)" in shown.splitlines()[-1]


@NEEDS_A_FULL_DEVICE
@pytest.mark.parametrize("words", ["list devices", "schema", "validate quickstart", "--help"])
def test_a_full_output_is_one_line(words):
    with Path("/dev/full").open("w") as full:
        done = fleetsim(*words.split(), stdout=full)

    assert done.returncode == 1
    assert done.stderr == (
        "error: the output cannot be written: [Errno 28] No space left on device; make room, or"
        " send it elsewhere\n"
    )


@NEEDS_A_FULL_DEVICE
def test_full_errors_leave_the_exit_code(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fleetsim.cli", "validate", "nowhere"],
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])},
        )

    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("words", ["list devices", "schema"])
def test_a_closed_pipe_ends_in_silence(words):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = fleetsim(*words.split(), stdout=writer)
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (1, "")
