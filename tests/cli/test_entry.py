"""Messages of the command line about its own bugs, and about output that cannot be written."""

import os
import subprocess
import sys
import tempfile
from copy import copy
from pathlib import Path

import pytest

from fleetsim.cli import entry

NEEDS_A_FULL_DEVICE = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
FULL = (
    "error: the output cannot be written: [Errno 28] No space left on device; make room, or"
    " send it elsewhere\n"
)


@pytest.mark.parametrize("fault", [RuntimeError("a\nb" + 1000 * "x"), OSError(28, "full", "a")])
def test_a_bug_is_one_line_and_its_traceback_is_in_a_file(fault, tmp_path, monkeypatch, command):
    def broken(**_: object) -> None:
        raise copy(fault)  # anew, as each keeps its traceback

    monkeypatch.setattr(entry, "app", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = command("run", "a b")
    (line,) = ended.err.splitlines()
    (path,) = tmp_path.iterdir()
    kept = path.read_text("utf-8")

    assert ended.code == 1
    assert line.startswith(f"error: unexpected {type(fault).__name__}: ")
    assert line.endswith(f"this is a bug of fleetsim, please report it with {path}")
    assert len(line) < 600
    assert "\nfleetsim run 'a b'\n" in kept
    assert "Traceback (most recent call last):" in kept
    assert ", in broken\n" in kept
    # Where no file can be written, the traceback is shown.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    ended = command("run")
    assert ended.code == 1
    assert "Traceback (most recent call last):" in ended.err
    assert "(no file: No such file or directory)" in ended.err.splitlines()[-1]


@NEEDS_A_FULL_DEVICE
@pytest.mark.parametrize("words", ["list devices", "schema", "validate quickstart"])
def test_a_full_output_is_one_line(words, monkeypatch, command):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        ended = command(*words.split())

    assert (ended.code, ended.err) == (1, FULL)


@pytest.mark.slow
@NEEDS_A_FULL_DEVICE
def test_a_process_whose_output_or_errors_are_full_ends_with_its_code():
    """Python writes what is left at the end of the process, and would change the code."""

    def ended(words: str, **streams):
        words_ = [sys.executable, "-m", "fleetsim", *words.split()]
        return subprocess.run(words_, text=True, check=False, **streams)

    with Path("/dev/full").open("w") as full:
        output = ended("--help", stdout=full, stderr=subprocess.PIPE)
        errors = ended("vaildate", stdout=subprocess.PIPE, stderr=full)

    assert (output.returncode, output.stderr) == (1, FULL)
    assert (errors.returncode, errors.stdout) == (2, "")


@pytest.mark.parametrize("words", ["list devices", "schema"])
def test_a_closed_pipe_ends_in_silence(words, monkeypatch, command):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        ended = command(*words.split())
        # What is left would be written when the file is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)

    assert (ended.code, ended.err) == (1, "")


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ("validate quickstart", "scenario.outline"),
        ("show trace people-week", "cli.list_names.files_of"),
        ("study status quick --home runs", "studies.study_setup.mixtures"),
        ("selector show fedgcs-quick", "selector_training.break_even.facts_by_clients"),
        (
            "selector break-even fedgcs-quick --study learning-selectors-quick --arm fedgcs",
            "selector_training.break_even.break_even",
        ),
    ],
)
def test_a_fault_leaves_no_half_table_on_stdout(words, last, monkeypatch, command, tmp_path):
    """The last step of the verb fails."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("at the very end")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"fleetsim.{last}", fails, raising=False)
    ended = command(*words.split())

    assert ended.code != 0
    assert ended.out == ""


BEGIN = """
import contextlib, io, pydoc, sys
import fleetsim

def imported(*names):
    print(*(name for name in names if name in sys.modules), sep=",")

imported("numpy", "torch")
"""
RUN = """
from fleetsim import cli
sys.argv = ["fleetsim", "--help"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    cli.main()
imported("pandas", "scipy", "networkx", "torch", "pydantic")

sys.argv = ["fleetsim", "validate", "quickstart", "--quiet"]
with contextlib.suppress(SystemExit):
    cli.main()
imported("torch", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "requests")

small = ["server.cohort=5", "stop.rounds=2", "checkpoint.every_rounds=1"]
fleetsim.run(fleetsim.load("synthetic-fedprox", small), out="run")

from torch import nn
from fleetsim.kernels.conv.channels_last import form_of
form_of(nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2)), (3, 8, 8), 1)
imported("matplotlib", "scipy", "sklearn", "networkx", "torch._dynamo", "sympy", "numba")
"""
SHOW = """
dir(fleetsim)
imported("pydantic")
pydoc.render_doc(fleetsim)
imported("torch", "matplotlib")
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [RUN, SHOW], ids=["run", "show"])
def test_a_program_imports_no_more_than_it_needs(program, tmp_path):
    """Nor numba, unless a network has layers for its loops: it takes 0.4 s and 50 MiB."""
    words = [sys.executable, "-c", BEGIN + program]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout == "\n" * f"{BEGIN}{program}".count("\nimported(")


@pytest.mark.slow
@pytest.mark.parametrize(("given", "is_fixed"), [({}, True), ({"PYTHONHASHSEED": "7"}, False)])
def test_plugins_find_sets_of_text_in_the_same_order_in_every_process(given, is_fixed, tmp_path):
    """Twenty texts in two processes have the same order by chance once in 20!."""
    lines = [
        "import sys",
        "import numpy as np",
        "print(sys.flags.hash_randomization, {str(n) for n in range(20)}, file=sys.stderr)",
        "def split(labels, num_clients, generator):",
        "    return np.array_split(np.arange(len(labels)), num_clients)",
        "",
    ]
    (tmp_path / "texts.py").write_text("\n".join(lines))
    rest = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    words = [sys.executable, "-m", "fleetsim", "plugin", "check", "texts:split"]
    shown = [
        subprocess.run(
            words, capture_output=True, text=True, check=True, cwd=tmp_path, env={**rest, **given}
        ).stderr
        for _ in range(2)
    ]
    assert shown[0] == shown[1]
    assert shown[0].startswith("0 " if is_fixed else "1 ")
