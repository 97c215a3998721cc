import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.flower.app import read_app
from fleetsim.flower.costs import AppSettings

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


def test_nested_keys_of_the_configuration_are_joined_by_dots(tmp_path):
    app = read_app(_app(tmp_path))

    assert app.config == {
        "rounds": 3,
        "lr": 0.1,
        "strategy": "fedavg",
        "is-fast": False,
        "model.width": 8,
    }
    assert (app.server_app, app.client_app) == ("mine.server_app:app", "mine.client_app:app")


def test_an_override_has_the_type_of_what_it_replaces(tmp_path):
    overrides = ["rounds=5", "lr=1", "strategy=7", "is-fast=true", "model.width=16"]

    config = read_app(_app(tmp_path), overrides).config

    assert list(config.values()) == [5, 1.0, "7", True, 16]
    assert isinstance(config["lr"], float)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("rounds", "must be KEY=VALUE"),
        ("round=1", "the app has no key 'round' in its config; did you mean 'rounds'?"),
        ("rounds=1.5", "must be a whole number, as 3"),
        ("lr=fast", "must be a number, as 0.1"),
        ("is-fast=1", "must be true or false, as False"),
    ],
)
def test_a_wrong_override_is_one_line(tmp_path, override, says):
    with pytest.raises(ScenarioError) as fault:
        read_app(_app(tmp_path), [override])

    assert str(fault.value) == f"--run-config {override}: {says}"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('serverapp = "mine.server_app:app"', "", "serverapp is missing"),
        ("mine.client_app:app", "../evil.py", "must be a reference such as"),
        ("rounds = 3", "rounds = [3]", "must be text, a number, true or false"),
        ("[project]", "[project", "is not TOML"),
        ("[project]", "tool.fleetsim.train.flops = 1\n[project]", "flops"),
        (
            "[project]",
            "tool.fleetsim.train = {flop = 1.0, flop_per_sample = 1.0}\n[project]",
            "flop and flop_per_sample exclude each other",
        ),
        ("[project]", "tool.fleetsim.train.flop = -1.0\n[project]", "must be"),
        (
            "[project]",
            'tool.fleetsim.train = {flop = 1, num_samples = 9, upload_byte = 8, measure = "always"}'
            "\n[project]",
            "measure = 'always' has nothing to measure",
        ),
    ],
)
def test_a_wrong_project_is_one_line_with_the_file(tmp_path, old, new, says):
    with pytest.raises(DataError) as fault:
        read_app(_app(tmp_path, _PROJECT.replace(old, new)))

    assert says in str(fault.value)
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


@pytest.mark.parametrize("value", [93.5, -0.1])
def test_an_accuracy_that_is_no_fraction_is_refused_or_named_a_percent(value):
    with pytest.raises(DataError, match=rf"accuracy is {value}, beyond 0 to 1; set .*accuracy_in"):
        AppSettings().accuracy_of({"accuracy": value})
    percent = AppSettings(accuracy_in="percent")
    if value > 0:
        assert percent.accuracy_of({"accuracy": value}) == value / 100.0
    else:
        with pytest.raises(DataError, match="beyond 0 to 100"):
            percent.accuracy_of({"accuracy": value})
