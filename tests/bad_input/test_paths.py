"""Paths that lead to what cannot be read, wherever a user can name one: exit 2 and one line."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.bad_input.good import GOOD, STATES, USERS, write

FOLDER = "{kind: folder, folder: PATH, test_fraction: 0.2}"


def scenario(old: str, new: str) -> Callable[[str], str]:
    """Write a scenario that names a path, and give the command that reads it."""

    def words(path: str) -> str:
        assert GOOD.count(old) == 1
        write({"named.yaml": GOOD.replace(old, new.replace("PATH", path))})
        return "validate named.yaml"

    return words


PLACES: dict[str, Callable[[str], str]] = {
    "scenario": lambda path: f"validate {path}",
    "device": scenario("pixel-6: 0.5", "PATH: 0.5"),
    "radio": scenario("{kind: fading}", "{kind: fading, metered_radio: PATH}"),
    "usage": scenario("trace: null", "trace: PATH"),
    "network": scenario("{kind: fading}", "{kind: trace, trace: PATH}"),
    "data": scenario("{kind: digits}", FOLDER),
    "run": lambda path: f"report {path}",
    "run to resume": lambda path: f"run good.yaml --resume --out {path}",
    "new run": lambda path: f"run good.yaml --out {path}",
    "prices": lambda path: f"report run --prices {path}",
    "event log": lambda path: f"trace import flash {path} new",
    "pickle": lambda path: f"trace import fedscale {path} new",
    "states": lambda path: f"trace import states {path} new",
    "network logs": lambda path: f"trace import irish-5g {path} new",
    "new trace": lambda path: f"trace import states own {path}",
}


@pytest.fixture
def placed(here):
    write(
        {
            "good.yaml": GOOD,
            "own/states.csv": STATES + "ann,0,1,1,1,0\n",
            "own/users.csv": USERS,
            "file": b"\0",
        }
    )
    write({"pipes/users.csv": USERS})
    for pipe in ("pipe", "pipes/states.csv", "pipes/manifest.json", "pipes/train.npz"):
        os.mkfifo(pipe)
    Path("pipes/rates.csv").symlink_to("../pipe")
    Path("loop").symlink_to("loop")


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_path_that_cannot_be_used_is_one_line_that_names_it(place, refused):
    for path in ("pipe", "loop", "/dev/zero", "x" * 300, "file/below", "file"):
        line = refused(*place(path).split())

        assert path[:40] in line
        assert "; " in line


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("place", ["usage", "network", "data", "run", "states"])
def test_a_pipe_in_a_folder_that_is_named_does_not_hang(place, refused):
    line = refused(*PLACES[place]("pipes").split())

    assert "pipes/" in line
    assert "is a pipe (FIFO), not a file" in line


@pytest.mark.usefixtures("placed")
def test_a_home_folder_of_nobody_is_told_with_the_key(refused_twice):
    PLACES["data"]("~nouser-x/data")

    line = refused_twice("named.yaml")

    assert line.startswith("named.yaml:4: task.dataset.folder")
    assert "~nouser-x is no user's home folder; write the path out" in line


@pytest.mark.usefixtures("placed")
def test_a_data_folder_of_the_environment_that_cannot_be_looked_at_is_told(monkeypatch, refused):
    monkeypatch.setenv("FLEETSIM_DATA", str(Path("loop").absolute()))

    assert "loop" in refused("data", "fetch", "mnist")


LABELS = {
    "one-hot": (np.eye(2, dtype=np.int64)[[0, 1] * 20], "save labels.argmax(axis=1)"),
    "column": (np.array([[0], [1]] * 20), "save labels[:, 0]"),
    "per feature": (np.zeros((40, 3), np.int64), "save one whole number per sample"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("labels", "message"), LABELS.values(), ids=LABELS)
def test_labels_that_cannot_be_learned_are_found_by_validate_too(labels, message, refused_twice):
    Path("mine").mkdir()
    np.savez("mine/train.npz", allow_pickle=False, inputs=np.zeros((40, 3)), labels=labels)
    write({"own.yaml": GOOD.replace("{kind: digits}", FOLDER.replace("PATH", "mine"))})

    line = refused_twice("own.yaml")

    assert "mine/train.npz: labels holds int64 of shape (40, " in line
    assert message in line
