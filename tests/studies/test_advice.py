"""Ways out in the faults of runs name options that `fleetsim study run` has."""

import ast
import re
from pathlib import Path

import typer.main

import fleetsim
from fleetsim.cli.application import app
from fleetsim.studies.run_store import for_study

PACKAGE = Path(fleetsim.__file__).parent
OF_RUNS = ("engine", "learning", "plugins", "record", "scenario", "selectors", "simulate")
NOT_OF_STUDIES = {
    # A study trains on the processor, in the numerical mode of the host, with one process a run.
    "--torch-device",
    "--numerics",
    "--workers",
    # A run of a study that began on another platform begins anew.
    "--allow-other-platform",
}


def options_of_study_run() -> set[str]:
    study = typer.main.get_command(app).commands["study"]  # type: ignore[attr-defined]
    return {name for option in study.commands["run"].params for name in option.opts}


def messages() -> set[str]:
    """Texts in the packages that runs use which name an option; values are X.

    The outline of a scenario is what `fleetsim validate` prints.
    """
    texts = set()
    for package in OF_RUNS:
        for file in {*(PACKAGE / package).rglob("*.py")} - {PACKAGE / "scenario" / "outline.py"}:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [
                        one.value if isinstance(one, ast.Constant) else "X" for one in node.values
                    ]
                    texts.add("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.add(node.value)
    return {text for text in texts if "--" in text and "\n" not in text}  # no docstrings


def test_no_fault_of_a_run_advises_an_option_that_a_study_lacks():
    known = options_of_study_run() | NOT_OF_STUDIES

    lacking = {
        text: missing
        for text in messages()
        if (missing := set(re.findall(r"(?<![\w`-])--[a-z][a-z-]+", for_study(text))) - known)
    }

    assert "--home" in known
    assert lacking == {}
