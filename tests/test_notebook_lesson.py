"""Blocks of docs/learn/7-from-a-notebook.md as cells of a notebook, and its outputs."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LESSON = ROOT / "docs" / "learn" / "7-from-a-notebook.md"
PNG = "image/png"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Outputs by the first line of their cell.

    The last cells make a mistake, and show figures beside pyplot's.
    """
    nbformat = pytest.importorskip("nbformat", reason="no nbformat; pip install '.[dev]'")
    nbclient = pytest.importorskip("nbclient", reason="no nbclient; pip install '.[dev]'")
    pytest.importorskip("ipykernel", reason="no ipykernel; pip install '.[dev]'")
    blocks = re.findall(r"^```python\n(.*?)^```", LESSON.read_text("utf-8"), re.M | re.S)
    assert len(blocks) >= 10
    cells = [
        nbformat.v4.new_code_cell(source, metadata={"tags": ["raises-exception"]})
        for source in (
            *blocks,
            "# a mistake\nfleetsim.run('quickstart', server__cohrot=5)",
            "# with pyplot\n%matplotlib inline\nimport matplotlib.pyplot\n"
            'run.figure("accuracy-time")',
            '# not the value\nfigure = run.figure("accuracy-time")',
            "# the last value\nfigure",
        )
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    home = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        nbclient.NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": home}}
        ).execute()
    return {cell.source.splitlines()[0]: cell.outputs for cell in cells}


def of(executed: dict[str, list[dict[str, Any]]], beginning: str) -> list[dict[str, Any]]:
    (result,) = (outputs for line, outputs in executed.items() if line.startswith(beginning))
    return result


@pytest.mark.slow
def test_only_the_mistake_is_an_error_and_it_is_one_line(executed):
    faults = [output for outputs in executed.values() for output in outputs if "ename" in output]

    (fault,) = faults
    assert fault["ename"] == "ScenarioError"
    assert fault["traceback"] == [
        "ScenarioError: keyword server__cohrot=5: server.cohrot = 5: unknown key; did you mean"
        " 'cohort'?"
    ]


@pytest.mark.slow
def test_no_cell_writes_warnings(executed):
    streams = [
        (output["name"], output["text"])
        for outputs in executed.values()
        for output in outputs
        if output["output_type"] == "stream"
    ]

    assert {name for name, _ in streams} == {"stdout"}
    assert [text for _, text in streams if "J to 80 %" in text] != []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beginning", "progress", "text"),
    [
        ("import fleetsim", '<progress value="1.000">', "<Run quickstart in runs/quickstart-"),
        ("import fleetsim", "round 40&nbsp; ", ""),
        ("result = ", "4 of 4 runs done", ""),
    ],
)
def test_a_run_and_a_study_show_their_progress_then_their_card(beginning, progress, text, executed):
    shown, card = of(executed, beginning)

    assert (shown["output_type"], card["output_type"]) == ("display_data", "execute_result")
    assert progress in shown["data"]["text/html"]
    assert card["data"]["text/html"].count("<img ") == 1
    assert card["data"]["text/plain"].startswith(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beginning", "pictures"),
    [
        ('run.figure("joules', 1),
        ("# with pyplot", 1),
        ("# not the value", 0),
        ("# the last value", 1),
    ],
)
def test_a_figure_displays_once_where_it_is_the_value(beginning, pictures, executed):
    outputs = of(executed, beginning)

    assert sum(PNG in output["data"] for output in outputs) == pictures
    assert len(outputs) == pictures
