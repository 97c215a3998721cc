"""Types of the public names, as mypy and pyright see them in a user's script.

pyright is run as basedpyright, a fork with the same rules in its mode `standard`, whose package has
all it needs: pyright's own downloads itself when it is first run.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fleetsim

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
GOOD = (HERE / "user_script.py").read_text("utf-8")
WRONG = """\
import fleetsim

run = fleetsim.run(5)  # wrong: no scenario
run.time_to_accuracy("0.8")  # wrong: text
hours: int = run.energy_to_accuracy(0.8)  # wrong: float or None
run.maifest  # wrong: misspelt
fleetsim.load("quickstart", seed="1")  # wrong: text
fleetsim.study("quick").run("oort", 1)  # wrong: keywords alone
fleetsim.runn  # wrong: misspelt


class Renames:
    def combine(self, base: object, reports: object) -> None: ...


class ReturnsAList:
    def aggregate(self, base: object, reports: object) -> list[float]:
        return []


fleetsim.run("quickstart", aggregator=Renames())  # wrong: no aggregate
fleetsim.run("quickstart", aggregator=ReturnsAList())  # wrong: a list
fleetsim.run("quickstart", local=Renames())  # wrong: no train_client
fleetsim.run("quickstart", loss=Renames())  # wrong: no losses, and not called
"""


def lines_that_mypy_refuses(script: str, folder: Path) -> set[int]:
    pytest.importorskip("mypy", reason="no mypy; pip install '.[dev]'")
    copy = folder / "script.py"
    copy.write_text(script, encoding="utf-8")
    words = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(copy)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {int(line) for line in re.findall(r"script.py:(\d+): error", done.stdout)}


def lines_that_pyright_refuses(script: str, folder: Path) -> set[int]:
    pyright = Path(sys.executable).with_name("basedpyright")
    if not pyright.is_file():
        pytest.skip("no basedpyright beside this python; pip install '.[pyright]'")
    (folder / "script.py").write_text(script, encoding="utf-8")
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "include": ["."]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    words = [str(pyright), "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


CHECKERS = {"mypy": lines_that_mypy_refuses, "pyright": lines_that_pyright_refuses}


@pytest.mark.slow
@pytest.mark.parametrize("refused", CHECKERS.values(), ids=CHECKERS)
def test_the_script_of_a_user_is_well_typed(refused, tmp_path):
    assert len(GOOD.splitlines()) >= 30
    assert refused(GOOD, tmp_path) == set()


@pytest.mark.slow
@pytest.mark.parametrize("refused", CHECKERS.values(), ids=CHECKERS)
def test_mistakes_of_a_user_are_found(refused, tmp_path):
    lines = WRONG.splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if "# wrong: " in line}

    assert len(marked) == 11
    assert refused(WRONG, tmp_path) == marked


def test_the_package_says_that_it_is_typed_and_the_wheel_has_all_of_it():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]

    assert (Path(fleetsim.__file__).parent / "py.typed").is_file()
    assert wheel["targets"]["wheel"]["packages"] == ["fleetsim"]
    assert "exclude" not in wheel["targets"]["wheel"]
