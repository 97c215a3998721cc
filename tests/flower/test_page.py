"""docs/flower.md, and the verb that it describes."""

import importlib.util
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetsim.cli import app
from fleetsim.errors import ScenarioError
from fleetsim.flower import versions
from fleetsim.flower.app import read_app
from fleetsim.flower.costs import AppSettings, MessageCostSettings

_PAGE = (Path(__file__).parents[2] / "docs" / "flower.md").read_text("utf-8")
_APP = """
[tool.flwr.app.components]
serverapp = "server:app"
clientapp = "client:app"
"""
_HAS_FLOWER = importlib.util.find_spec("flwr") is not None


def test_the_example_of_declared_costs_is_read(tmp_path):
    [example] = re.findall(r"^```toml\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(_APP + example)

    settings = read_app(tmp_path).settings

    assert settings.train.work(30).total_flop == 30 * 7680
    assert settings.train.work(30).batches == 3
    assert not settings.train.is_complete
    assert settings.evaluate.is_complete
    assert settings.evaluate.work(40).flop == (("gemm", 5e6),)
    assert settings.accuracy_of({"accuracy": 0.5, "top-1": 0.25}) == 0.25


def test_the_page_names_every_key():
    keys = {*AppSettings.model_fields, *MessageCostSettings.model_fields}

    assert [key for key in sorted(keys) if f"{key}" not in _PAGE] == []


def test_the_page_names_every_tested_version():
    [message] = re.findall(r"Tested versions of flwr are (.*?);", _PAGE)
    listed = []
    for part in re.split(r", | and ", message):
        first, _, last = part.partition(" to ")
        minors = [int(each.split(".")[1]) for each in (first, last or first)]
        listed += [f"1.{minor}" for minor in range(minors[0], minors[1] + 1)]

    assert tuple(listed) == versions.TESTED


@pytest.mark.skipif(_HAS_FLOWER, reason="flwr is installed here")
def test_without_flwr_the_verb_says_how_to_install_it(tmp_path):
    result = CliRunner().invoke(app, ["flower", "run", str(tmp_path), "--scenario", "quickstart"])

    assert isinstance(result.exception, ScenarioError)
    assert "pip install 'fleetsim[flower]'" in str(result.exception)


@pytest.mark.skipif(not _HAS_FLOWER, reason="flwr is not installed; scripts/check-flower does it")
@pytest.mark.filterwarnings("ignore")
def test_the_verb_runs_an_app_and_writes_the_report(tmp_path):
    folder = str(Path(__file__).parent / "apps" / "legacy_numpy")
    out = str(tmp_path / "run")
    options = ["--scenario", "quickstart", "--run-config", "num-server-rounds=2", "--out", out]

    result = CliRunner().invoke(app, ["flower", "run", folder, *options])

    assert result.exception is None
    assert (tmp_path / "run" / "report.html").exists()
    assert "legacy-numpy" in (tmp_path / "run" / "manifest.json").read_text("utf-8")
