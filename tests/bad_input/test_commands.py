"""Wrong commands and run folders that will not do: exit 2, one line, nothing written."""

import shutil

import pytest

from fleetsim import simulate
from fleetsim.scenario import load
from tests.bad_input.good import GOOD, STATES, USERS, write

COMMANDS = {
    "no such verb": ("vaildate good.yaml", "vaildate", "'validate'"),
    "no scenario": ("run", "SCENARIO", "fleetsim run --help"),
    "no such option": ("run good.yaml --sed 1", "--sed", "--seed"),
    "unknown scenario": ("validate quickstrat", "'quickstrat'", "did you mean 'quickstart'?"),
    "scenario without a name": ("validate <empty>", "''", "quickstart"),
    "negative seed": ("run good.yaml --seed -1", "--seed", "greater than or equal to 0"),
    "seed of 64 bit": (f"run good.yaml --seed {2**63}", "--seed", str(2**63 - 1)),
    "device of torch's": ("run good.yaml --torch-device tpu", "--torch-device", "'cpu', 'cuda'"),
    "override of an unknown key": (
        "validate good.yaml --set server.cohrot=4", "--set server.cohrot=4: ", "'cohort'"),
    "override with a bad value": (
        "validate good.yaml --set server.cohort=-4",
        "--set server.cohort=-4: server.cohort", ">= 1"),
    "output that is a file": ("run good.yaml --out taken", "taken: ", "--out"),
    "output below a device": ("run good.yaml --out /dev/null/run", "/dev/null/run: ", "--out"),
    "output folder that is not empty": (
        "run good.yaml --out folder", "folder: ", "empty it", "--out"),
    "folder of something else to resume": (
        "run good.yaml --resume --out folder", "folder: is not a run folder"),
    "report on nothing": ("report nowhere", "nowhere: no such folder", "fleetsim run"),
    "report on any folder": ("report folder", "folder: ", "manifest.json", "fleetsim run"),
    "comparison of nothing": ("compare nowhere", "nowhere: no such folder", "fleetsim run"),
    "target in percent": ("compare folder --target 85", "--target", "less than or equal to 1"),
    "list of anything": ("list selektors", "'selektors'", "did you mean 'selectors'?"),
    "unknown data": (
        "data fetch fashion_mnist", "'fashion_mnist'", "did you mean 'fashion-mnist'?"),
    "unknown form of a trace": ("trace import flush folder new", "'flush'",
        "flhetbench, extrasensory, flash, flash-ready, fedscale"),
    "trace that is not there": ("trace import states nowhere new", "nowhere: no such file"),
    "trace of another form": (
        "trace import flhetbench trace new", "trace: ", "import it as states"),
    "behaviour file that is not one": (
        "trace import fedscale taken new", "taken: ", "nothing is executed"),
    "import option of another format": (
        "trace import states trace new --online always", "--online", "flash"),
    "table without a time": ("trace import table taken new --rate r[bit/s]", "--time", "name the"),
    "table without a unit": ("trace import table taken new --time t --rate r", "--rate r", "bit/s"),
    "time zone beyond the globe": ("trace import flash taken new --utc-offset-h 20", "14 h"),
    "trace in the way": (
        "trace import states trace folder", "folder: exists already", "another name"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "parts"), [(c[0], c[1:]) for c in COMMANDS.values()], ids=COMMANDS
)
def test_a_wrong_command_is_refused(words, parts, refused):
    write({"good.yaml": GOOD, "taken": "a file", "folder/file": "", "trace/users.csv": USERS})
    write({"trace/states.csv": f"{STATES}ann,0,1,1,1,0\n"})

    line = refused(*(word.replace("<empty>", "") for word in words.split()))

    for part in parts:
        assert part in line


def test_a_cache_that_cannot_be_written_is_refused_before_any_download(refused, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")

    line = refused("data", "fetch", "mnist")

    assert line.startswith("/dev/null/cache/fleetsim/mnist: ")
    assert "set XDG_CACHE_HOME" in line


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """Folder with `good.yaml` and two complete runs of it, `run` and `other` with another seed."""
    home = tmp_path_factory.mktemp("complete")
    (home / "good.yaml").write_text(GOOD)
    for seed, name in ((1, "run"), (2, "other")):
        simulate.run(load(home / "good.yaml", seed=seed), out=home / name)
    return home


@pytest.fixture
def runs(complete, here):
    """A copy of the complete runs in the working folder."""
    shutil.copytree(complete, here, dirs_exist_ok=True)
    return here


TWO = "compare run other"
TABLE = "run the scenario again"
FOLDERS = {
    "complete run in the way": ("run good.yaml --out run", {}, "run: ", "complete run", "--out"),
    "resumed with another seed": (
        "run good.yaml --out run --resume --seed 2", {}, "run: ", "--seed", "run/scenario.yaml"),
    "resumed with another scenario": (
        "run good.yaml --out run --resume --set server.cohort=4", {}, "run: ", "--set"),
    "resumed without training": (
        "run good.yaml --out run --resume --no-train", {}, "run: ", "--no-train"),
    "different worlds": (TWO, {}, "seed (1, 2)", "--different-worlds"),
    "the same run twice": ("compare run run", {}, "run: ", "twice"),
    "comparison in the way": (
        f"{TWO} --different-worlds --out good.yaml", {}, "good.yaml: ", "--out"),
    "half a manifest": ("report run", {"manifest.json": b'{"for'}, "run/manifest.json", "again"),
    "no table": ("report run", {"tasks.parquet": None}, "run/tasks.parquet", TABLE),
    "half a scenario": (
        "report run", {"scenario.yaml": b"a: ["}, "run/scenario.yaml:1", "not YAML"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "damage", "parts"), [(c[0], c[1], c[2:]) for c in FOLDERS.values()], ids=FOLDERS
)
def test_a_run_folder_that_will_not_do_is_refused(words, damage, parts, runs, refused):
    for name, content in damage.items():
        path = runs / "run" / name
        path.unlink() if content is None else path.write_bytes(content)

    line = refused(*words.split())

    for part in parts:
        assert part in line


@pytest.mark.usefixtures("without_figures")
def test_a_page_that_cannot_be_written_is_one_line(runs, refused):
    (runs / "run" / "figures").mkdir()
    (runs / "run" / "report.html").mkdir()

    assert refused("report", "run").startswith("run/report.html: cannot be written")
