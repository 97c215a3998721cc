"""Summary of a run in a notebook, and figures that display."""

import base64
import io
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

import fleetsim
from fleetsim.errors import DataError
from fleetsim.record.manifest import write_manifest
from fleetsim.record.saved_run import open_run
from fleetsim.report.figures import style
from tests.report.made_runs import MadeUp, make_run

PAGE = Path(fleetsim.__file__).parents[1] / "docs" / "reports.md"
EVIL = "<script>alert('1')</script>"


def test_a_run_shows_its_numbers_and_one_picture(tmp_path):
    html = make_run(tmp_path / "run", MadeUp(num_rounds=3))._repr_html_()

    (address,) = re.findall(r'<img [^>]*src="([^"]+)"', html)
    picture = Image.open(io.BytesIO(base64.b64decode(address.partition("base64,")[2])))
    assert address.startswith("data:image/png;base64,")
    assert picture.width >= 1200
    assert "<b>made-up</b>" in html
    assert "seed 1, stopped: 3 rounds done" in html
    assert "<th>rounds</th><td>3</td>" in html
    assert "host time" not in html
    assert 'alt="test accuracy against time"' in html
    assert len(html) < 150_000


def test_a_run_without_rounds_shows_numbers_alone(tmp_path):
    html = make_run(tmp_path / "run", MadeUp(num_rounds=0, status="failed"))._repr_html_()

    assert "<img" not in html
    assert "<th>rounds</th><td>0</td>" in html


def test_failures_and_warnings_come_first(tmp_path):
    run = make_run(tmp_path / "run", MadeUp())
    write_manifest(run.folder, run.manifest.model_copy(update={"warnings": (f"mind {EVIL}",)}))

    html = open_run(run.folder)._repr_html_()

    assert html.index("warning: mind &lt;script&gt;") < html.index("<table>")
    assert "<script" not in html


def test_a_damaged_run_shows_the_reason(tmp_path):
    run = make_run(tmp_path / "run", MadeUp())
    (run.folder / "rounds.parquet").unlink()

    html = open_run(run.folder)._repr_html_()

    assert f"<td>{run.folder}</td>" in html
    assert "rounds.parquet: " in html


def test_a_run_is_a_line_where_there_is_no_html(tmp_path):
    run = make_run(tmp_path / "run", MadeUp(num_rounds=3))

    assert repr(run) == f"<Run made-up in {run.folder}: done, 3 rounds>"


@pytest.mark.slow
def test_every_figure_of_the_page_is_there_by_its_name(tmp_path):
    """The names are those of docs/reports.md; some need batteries, probes or bandits."""
    section = PAGE.read_text("utf-8").split("## What the figures of a run show")[1]
    documented = re.findall(r"^\| `([a-z-]+)` \|", section.split("\n## ")[0], re.MULTILINE)
    run = make_run(tmp_path / "run", MadeUp())
    sizes, missing = {}, []
    for name in documented:
        try:
            sizes[name] = run.figure(name).get_figwidth()
        except DataError:
            missing.append(name)

    assert len(documented) >= 14
    assert set(missing) <= {"batteries", "diagnostics", "opinions"}
    assert set(sizes.values()) == {style.WIDTH_IN}


@pytest.mark.slow
def test_a_figure_displays_as_one_picture_without_pyplot(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("matplotlib.pyplot")]:
        monkeypatch.delitem(sys.modules, name)
    figure = make_run(tmp_path / "run", MadeUp()).figure("waste")

    assert isinstance(figure, style.ShownFigure)
    png, about = figure._repr_png_()

    # 150 pixels an inch, shown at half the size.
    assert Image.open(io.BytesIO(png)).width == style.WIDTH_IN * 150
    assert about == {"width": style.WIDTH_IN * 75}
    assert figure._repr_html_() is None
    assert "matplotlib.pyplot" not in sys.modules
