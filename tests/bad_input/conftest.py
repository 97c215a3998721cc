import pytest

from tests.bad_input.good import tree


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLEETSIM_DATA", raising=False)
    return tmp_path


@pytest.fixture
def refused(here, command):
    """Call the command line; it must refuse in one line, which is returned, and write nothing."""

    def call(*words):
        before = tree(here)

        ended = command(*words)

        assert ended.code == 2
        assert "Traceback" not in ended.out + ended.err
        lines = ended.err.splitlines()
        assert len(lines) == 1, ended.err
        assert lines[0].startswith("error: ")
        assert tree(here) == before
        return lines[0].removeprefix("error: ")

    return call


@pytest.fixture
def refused_twice(refused):
    """Return what `validate` says of a scenario, which must be what `run` says."""

    def call(path):
        line = refused("validate", path)

        assert refused("run", path, "--out", "run") == line
        return line

    return call
