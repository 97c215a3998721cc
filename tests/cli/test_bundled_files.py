"""The verbs `show` and `copy` with bundled files."""

import shlex
import shutil
from pathlib import Path

import pytest

from fleetsim import bundled
from fleetsim.cli import bundled_files
from fleetsim.scenario import load
from fleetsim.studies.study import load_study

FILES = [
    ("scenario", "papers/fedgcs-mnist-dir", "scenarios/papers/fedgcs-mnist-dir.yaml"),
    ("study", "quick", "studies/quick.yaml"),
    ("device", "t2.small", "devices/t2.small.yaml"),
    ("radio", "lte", "radios/lte.yaml"),
    ("prices", "aws-us-east-1", "prices/aws-us-east-1.yaml"),
]
ROOT = bundled.folder("scenarios").parent


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("kind", "name", "file"), FILES)
def test_a_file_is_shown_and_copied_as_it_is(kind, name, file, command):
    content = (ROOT / file).read_text("utf-8")

    assert command("show", kind, name).out == content
    assert command("copy", kind, name, "sub/mine").out == f"{kind}: sub/mine\n"
    assert Path("sub/mine").read_text("utf-8") == content
    assert command("copy", kind, name, ".").out == f"{kind}: {Path(file).name}\n"


def test_a_trace_is_shown_by_its_readme_and_copied_with_all_files(command):
    source = bundled.folder("traces") / "commute-5g"
    shown = command("show", "trace", "commute-5g").out

    assert shown.startswith((source / "README.md").read_text("utf-8"))
    assert "  rates.csv.gz  " in shown
    assert command("copy", "trace", "commute-5g", "mine").code == 0
    assert {path.name: path.read_bytes() for path in Path("mine").iterdir()} == {
        path.name: path.read_bytes() for path in source.iterdir() if path.is_file()
    }
    assert [path.name for path in Path().iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("kind", "name"), [("scenario", "quickstart"), ("trace", "commute-5g"), ("device", "pixel-6")]
)
def test_nothing_is_overwritten_without_force_and_other_files_stay(kind, name, command):
    copied = command("copy", kind, name, ".").out.split(": ")[1].strip()
    taken, beside = Path(copied), Path("notes.txt")
    if kind == "trace":
        taken, beside = Path(copied, "README.md"), Path(copied, "notes.txt")
    taken.write_text("mine")
    beside.write_text("mine")

    refused = command("copy", kind, name, ".")

    assert refused.code == 2
    assert "exists already; choose another DEST, or give --force" in refused.err
    assert taken.read_text("utf-8") == "mine"
    assert command("copy", kind, name, ".", "--force").code == 0
    assert taken.read_text("utf-8") != "mine"
    assert beside.read_text("utf-8") == "mine"


def test_a_copy_of_a_scenario_and_of_a_study_is_the_same_run(command):
    command("copy", "scenario", "quickstart", "mine.yaml")
    command("copy", "study", "quick", "my-study.yaml")

    assert load("mine.yaml").content_hash == load("quickstart").content_hash
    assert [run.key for run in load_study("my-study.yaml").runs] == [
        run.key for run in load_study("quick").runs
    ]


def test_a_copy_of_a_trace_leaves_out_what_pip_compiled(command, tmp_path, monkeypatch):
    source = tmp_path / "source"
    shutil.copytree(bundled.folder("traces") / "commute-5g", source)
    (source / "__pycache__").mkdir(exist_ok=True)
    monkeypatch.setattr(bundled_files, "bundled_path", lambda *_: source)

    assert command("copy", "trace", "commute-5g", "mine").code == 0
    assert Path("mine", "README.md").is_file()
    assert not Path("mine", "__pycache__").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name", "dest"),
    [
        ("scenario", "stragglers", "mine.yaml"),
        ("scenario", "stragglers", "quickstart"),  # a bundled name
        ("device", "pixel-6", "mine.yaml"),
        ("device", "t2.small", "."),
        ("radio", "lte", "."),
        ("trace", "people-week", "."),  # the bundled name of the same
        ("trace", "commute-5g", "mine"),
    ],
)
def test_the_next_command_is_valid_and_uses_the_copy(kind, name, dest, command):
    copied = command("copy", kind, name, dest)
    note, _, words = copied.err.strip().partition("fleetsim run ")

    checked = command("validate", *shlex.split(words), "--full")

    assert note == "note: use it with: "
    assert checked.code == 0
    if kind == "scenario":
        assert checked.out.startswith("name: stragglers\n")
    else:
        assert str(Path(dest if dest != "." else copied.out.split(": ")[1].strip())) in checked.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("show device pixel6", "error: device 'pixel6': no such bundled device; did you mean"),
        ("copy scenario quickstrat x", "did you mean 'quickstart'?"),
        ("show study nothing-near", "no such bundled study; bundled are charging-habits, "),
        (
            "copy selector oort x",
            "'selector' is not one of 'scenario', 'study', 'search', 'device', ",
        ),
        ("show selektor oort", "'selektor' is no kind of name; did you mean 'selectors'?"),
        ("show selector ort", "selectors: there is no 'ort'; did you mean 'oort'?"),
        ("copy scenario quickstart /dev/null/x", "/dev/null: "),
        ("show scenario ./scenarios/quickstart.yaml", "no such bundled scenario"),
        ("validate mine", "no such bundled scenario or path; did you mean './mine.yaml'?"),
    ],
)
def test_a_wrong_name_or_place_is_one_line(words, message, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").touch()
    ended = command(*words.split())

    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert len(ended.err.splitlines()) == 1
    assert list(Path().iterdir()) == [Path("mine.yaml")]
