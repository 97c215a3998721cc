"""Paths that users give: expanded at the door, or refused before the run."""

import pytest

import fleetsim
from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.report.pages import comparison
from fleetsim.scenario import load
from fleetsim.simulate import run
from fleetsim.studies.run_store import RunStore


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def made(out):
    changes = ["task.dataset={kind: blank, input_shape: [8]}", "task.partition={kind: iid}"]
    changes += ["fleet.size=4", "server.cohort=2", "stop={rounds: 1}"]
    return run(load("quickstart", changes), out=out, train=False)


@pytest.mark.parametrize(
    ("out", "at"),
    [
        ("~/mine", "home/mine"), ("a:b", "here/a:b"), ("file:///c", "here/file:/c"),
        ("two words\nand a line", "here/two words\nand a line"), ("-dash", "here/-dash"),
        ("slash/", "here/slash"), ("../up", "up"),
    ],
)  # fmt: skip
def test_a_run_folder_may_have_any_name(out, at, tmp_path):
    done = made(out)

    assert (tmp_path / at / "rounds.parquet").is_file()
    assert fleetsim.open_run(out).manifest.digest == done.manifest.digest


@pytest.mark.parametrize(
    "out", ["", "\udcff", "nul\0", "~nobody-of-this-name/x", "file", "file/below"], ids=ascii
)
def test_a_place_that_cannot_be_is_refused_before_the_run(out, tmp_path):
    (tmp_path / "here" / "file").write_text("not a folder")
    with pytest.raises(DataError) as refused:
        made(out)

    assert "\n" not in str(refused.value)
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["file"]


def test_pages_and_homes_of_studies_may_lie_below_the_home_folder(tmp_path):
    runs = [made(f"~/{name}") for name in ("mine", "yours")]
    page = comparison.write(comparison.compare(runs), "~/pages")

    assert page == tmp_path / "home" / "pages" / "comparison.html"
    assert RunStore("~/studies").home == tmp_path / "home" / "studies"
    assert paths.local("~/x") == tmp_path / "home" / "x"
