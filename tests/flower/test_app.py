import importlib.util
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetsim.cli import app
from fleetsim.errors import DataError, ScenarioError
from fleetsim.flower import versions
from fleetsim.flower.app import read_app
from fleetsim.flower.call_record import CallRecord
from fleetsim.flower.costs import AppSettings, MessageCostSettings
from fleetsim.host import new_files

_PROJECT = """
[project]
name = "mine"
[tool.flwr.app.components]
serverapp = "mine.server_app:app"
clientapp = "mine.client_app:app"
[tool.flwr.app.config]
rounds = 3
lr = 0.1
strategy = "fedavg"
is-fast = false
[tool.flwr.app.config.model]
width = 8
"""


def _app(folder, text=_PROJECT):
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_nested_keys_are_joined_by_dots_and_overrides_have_the_type_of_what_they_replace(tmp_path):
    app = read_app(_app(tmp_path))
    overrides = ["rounds=5", "lr=1", "strategy=7", "is-fast=true", "model.width=16"]
    config = read_app(tmp_path, overrides).config

    before = {"rounds": 3, "lr": 0.1, "strategy": "fedavg", "is-fast": False, "model.width": 8}
    assert app.config == before
    assert (app.server_app, app.client_app) == ("mine.server_app:app", "mine.client_app:app")
    assert list(config.values()) == [5, 1.0, "7", True, 16]
    assert list(map(type, config.values())) == list(map(type, before.values()))


@pytest.mark.parametrize(
    ("override", "config"),
    [
        ("strategy='fed avg'", {"strategy": "fed avg"}),
        (r'strategy="a \"b\" = c"', {"strategy": 'a "b" = c'}),
        ("strategy=''", {"strategy": ""}),
        (" rounds=5  strategy='x' lr=2 ", {"rounds": 5, "strategy": "x", "lr": 2.0}),
    ],
)
def test_overrides_are_quoted_and_joined_as_in_flower(tmp_path, override, config):
    app = read_app(_app(tmp_path))

    assert read_app(tmp_path, [override]).config == app.config | config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("", "must be KEY=VALUE, with quotes around blanks"),
        ("rounds", "must be KEY=VALUE, with quotes around blanks"),
        ("strategy=fed avg", "must be KEY=VALUE, with quotes around blanks"),
        ("strategy='fed", "must be KEY=VALUE, with quotes around blanks"),
        ("rounds='5'", "must be a whole number, as 3"),
        ("round=1", "the app has no key 'round' in its config; did you mean 'rounds'?"),
        ("rounds=1.5", "must be a whole number, as 3"),
        ("lr=fast", "must be a number, as 0.1"),
        ("is-fast=1", "must be true or false, as False"),
    ],
)
def test_a_wrong_override_is_one_line(tmp_path, override, message):
    with pytest.raises(ScenarioError) as fault:
        read_app(_app(tmp_path), [override])

    assert str(fault.value) == f"--run-config {override}: {message}"


DECLARED = "tool.fleetsim.train = {flop = 1, %s}\n[project]"
WRONG = [
    ('serverapp = "mine.server_app:app"', "", "serverapp is missing"),
    ("mine.client_app:app", "../evil.py", "must be a reference such as"),
    ("rounds = 3", "rounds = [3]", "must be text, a number, true or false"),
    ("[project]", "[project", "is not TOML"),
    ("[project]", "tool.fleetsim.train.flops = 1\n[project]", "flops"),
    ("[project]", DECLARED % "flop_per_sample = 1.0", "flop and flop_per_sample exclude each"),
    ("[project]", "tool.fleetsim.train.flop = -1.0\n[project]", "must be"),
    ("[project]", DECLARED % 'num_samples = 9, upload_byte = 8, measure = "always"',
        "measure = 'always' has nothing to measure"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_wrong_project_is_one_line_with_the_file(tmp_path, old, new, message):
    with pytest.raises(DataError) as fault:
        read_app(_app(tmp_path, _PROJECT.replace(old, new)))

    assert message in str(fault.value)
    assert str(tmp_path / "pyproject.toml") in str(fault.value)
    assert "\n" not in str(fault.value)


def test_a_folder_without_a_project_is_no_app(tmp_path):
    with pytest.raises(DataError, match=r"has no pyproject\.toml"):
        read_app(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        read_app(tmp_path / "missing")


def test_the_source_hash_knows_names_and_bytes_of_code_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    code = tmp_path / "mine" / "client_app.py"
    code.write_text("app = 1\n")
    before = read_app(_app(tmp_path)).source_sha256
    (tmp_path / "notes.txt").write_text("not code")
    same = read_app(tmp_path).source_sha256
    code.write_text("app = 2\n")
    changed = read_app(tmp_path).source_sha256
    code.write_text("app = 1\n")
    code.rename(tmp_path / "mine" / "other.py")

    assert same == before
    assert len({before, changed, read_app(tmp_path).source_sha256}) == 3


def test_an_accuracy_that_is_no_fraction_is_refused_or_named_a_percent():
    percent = AppSettings(accuracy_in="percent")
    assert percent.accuracy_of({"accuracy": 93.5}) == 0.935
    for value in (93.5, -0.1):
        with pytest.raises(DataError, match=rf"is {value}, beyond 0 to 1; set .*accuracy_in"):
            AppSettings().accuracy_of({"accuracy": value})
    with pytest.raises(DataError, match="beyond 0 to 100"):
        percent.accuracy_of({"accuracy": -0.1})


def _no_call():
    raise AssertionError("answered from the record")


def _recorded(folder):
    record = CallRecord(folder, is_kept=True)
    record.answer("get_node_ids", "", lambda: record.put(b"[2, 3]"))
    record.answer("sleep", "1.0", lambda: None)
    return record


def _resumed(folder):
    record = CallRecord(folder, is_kept=True)
    record.restore(_recorded(folder).state())
    return record


def test_a_resumed_run_gets_the_same_answers_and_then_live_ones(tmp_path):
    record = _resumed(tmp_path)
    nodes = record.answer("get_node_ids", "", _no_call)

    assert isinstance(nodes, str)
    assert record.get(nodes) == b"[2, 3]"
    assert record.answer("sleep", "1.0", _no_call) is None
    assert not record.is_replaying
    assert record.answer("sleep", "2.0", lambda: "live") == "live"


@pytest.mark.parametrize(
    ("call", "asked", "message"),
    [
        ("sleep", "", "call 1 of the server app was get_node_ids and is now sleep"),
        ("get_node_ids", "x", "call 1 of the server app get_node_ids differs"),
    ],
)
def test_a_call_that_differs_from_the_record_ends_the_run(tmp_path, call, asked, message):
    with pytest.raises(DataError, match=message):
        _resumed(tmp_path).answer(call, asked, _no_call)


def test_a_damaged_or_foreign_answer_is_refused(tmp_path):
    record = _recorded(tmp_path)
    [file] = (tmp_path / "replies").iterdir()
    file.write_bytes(b"[2, 4]")

    with pytest.raises(DataError, match="is damaged"):
        record.get(file.name)
    with pytest.raises(DataError, match="no digest"):
        record.get("../../manifest.json")


def test_the_store_of_a_run_that_is_done_is_removed_and_nothing_else(tmp_path):
    record = _recorded(tmp_path)
    mine = tmp_path / "replies" / "mine.txt"
    mine.write_text("not a reply")
    left_by_a_kill, file = new_files.created_beside(tmp_path / "replies" / ("0" * 64))
    file.close()
    assert left_by_a_kill.exists()

    record.clear()

    assert list((tmp_path / "replies").iterdir()) == [mine]


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


def test_the_page_names_every_key_and_every_tested_version():
    keys = {*AppSettings.model_fields, *MessageCostSettings.model_fields}
    [message] = re.findall(r"Tested versions of flwr are (.*?);", _PAGE)
    listed = []
    for part in re.split(r", | and ", message):
        first, _, last = part.partition(" to ")
        minors = [int(each.split(".")[1]) for each in (first, last or first)]
        listed += [f"1.{minor}" for minor in range(minors[0], minors[1] + 1)]

    assert [key for key in sorted(keys) if key not in _PAGE] == []
    assert tuple(listed) == versions.TESTED


@pytest.mark.skipif(_HAS_FLOWER, reason="flwr is installed here")
def test_without_flwr_the_verb_says_how_to_install_it(tmp_path):
    result = CliRunner().invoke(app, ["flower", "run", str(tmp_path), "--scenario", "quickstart"])

    assert isinstance(result.exception, ScenarioError)
    assert "pip install 'fleetsim[flower]'" in str(result.exception)


@pytest.mark.skipif(not _HAS_FLOWER, reason="flwr is not installed; scripts/check-flower does it")
@pytest.mark.filterwarnings("ignore")
def test_the_verb_runs_an_app_and_writes_the_report(tmp_path):
    folder = str(Path(__file__).parent / "apps" / "torch_quickstart")
    out = str(tmp_path / "run")
    options = ["--scenario", "quickstart", "--run-config", "num-server-rounds=2", "--out", out]

    assert CliRunner().invoke(app, ["flower", "run", folder, *options]).exception is None
    assert (tmp_path / "run" / "report.html").exists()
    assert "torch-quickstart" in (tmp_path / "run" / "manifest.json").read_text("utf-8")


@pytest.mark.parametrize("version", ["1.28.0", "1.37.0", "1.43.0", "2.0.0", "1.4.0"])
def test_a_version_that_is_not_tested_is_refused_with_the_list(version):
    for tested in versions.TESTED:
        versions.require_tested(f"{tested}.0")
    with pytest.raises(ScenarioError) as fault:
        versions.require_tested(version)

    assert str(fault.value).startswith(f"flwr {version}: is not a tested version, these are: 1.29")
    assert "pip install 'flwr==1.42.*'" in str(fault.value)
