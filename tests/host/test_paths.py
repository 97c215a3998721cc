"""Kinds of a user's paths, and the one-line error where a path cannot be used."""

import os
import signal
import socket
from pathlib import Path

import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.host.termination import Terminated, terminable

NEEDS_A_PLAIN_USER = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


def test_files_folders_and_nothing_are_told_apart_through_links(tmp_path):
    (tmp_path / "file").write_bytes(b"a")
    for target in ("file", "nowhere"):
        (tmp_path / f"to-{target}").symlink_to(target)

    assert paths.kind_of(tmp_path) == "folder"
    assert paths.kind_of(tmp_path / "file") == paths.kind_of(tmp_path / "to-file") == "file"
    for nothing in ("nowhere", "to-nowhere", "file/below", "x" * 300):
        assert paths.kind_of(tmp_path / nothing) is None
    assert paths.read(tmp_path / "to-file") == b"a"


def test_a_folder_gives_its_matches_sorted_and_a_missing_one_none(tmp_path):
    for name in ("b.npz", "a.npz", "c.txt"):
        (tmp_path / name).write_bytes(b"")

    assert [path.name for path in paths.matches(tmp_path, "*.npz")] == ["a.npz", "b.npz"]
    assert paths.matches(tmp_path / "nowhere", "*") == []


@pytest.mark.parametrize("use", [paths.kind_of, paths.read, lambda path: paths.matches(path, "*")])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_pipe_a_socket_and_a_device_are_refused_unopened(tmp_path, monkeypatch, kind, use):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    os.mkfifo("pipe")
    socket.socket(socket.AF_UNIX).bind("socket")
    path = Path("/dev/zero" if kind == "device" else kind)

    with pytest.raises(DataError, match=rf"^{path}: is a {kind}.*, not a file or folder; copy its"):
        use(path)


@pytest.mark.parametrize(
    ("name", "use", "message"),
    [
        ("loop", paths.kind_of, "loop: cannot be .*: Too many levels of symbolic links; its"),
        ("loop", paths.read, "loop: cannot be .*: Too many levels of symbolic links; its"),
        ("a\0b", paths.kind_of, r"'.*a\\x00b': holds a character that no path can"),
        ("a\0b", paths.read, r"'.*a\\x00b': holds a character that no path can"),
        ("nowhere", paths.read, "nowhere: no such file; check the name"),
        ("folder", paths.read, "folder: is a folder; name a file in it"),
        ("file/below", paths.read, "below: cannot be read: Not a directory; a file stands where"),
        ("x" * 300, paths.read, "x: cannot be read: File name too long; name a shorter path"),
    ],
)
@pytest.mark.parametrize("error", [DataError, ScenarioError])
def test_what_cannot_be_used_is_refused_with_a_hint(tmp_path, name, use, message, error):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(error, match=message):
        use(tmp_path / name, error)


@NEEDS_A_PLAIN_USER
def test_what_may_not_be_read_is_refused_with_a_hint(tmp_path):
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "file").chmod(0)

    for use, path in (
        (paths.kind_of, tmp_path / "closed" / "below"),
        (paths.read, tmp_path / "file"),
        (lambda path: paths.matches(path, "*"), tmp_path / "closed"),
    ):
        with pytest.raises(DataError, match=r"Permission denied; allow this user to read it"):
            use(path)


def test_a_home_folder_is_expanded_and_an_unknown_one_refused(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")

    assert paths.expanded("~/a") == Path("/somewhere/a")
    assert paths.expanded("a/~") == Path("a/~")
    with pytest.raises(
        DataError, match=r"^key: ~nouser-x/a: ~nouser-x is no user's home folder; w"
    ):
        paths.expanded("~nouser-x/a", key="key")


@pytest.fixture
def clock(monkeypatch):
    """Seconds of the monotonic clock, set by the test."""
    now_s = [100.0]
    monkeypatch.setattr("fleetsim.host.termination.time.monotonic", lambda: now_s[0])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield now_s
    signal.signal(signal.SIGINT, before)


@terminable()
def signalled_twice(number, clock, apart_s, saved):
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt:
        clock[0] += apart_s
        signal.raise_signal(number)
        saved.append("rounds")
        raise


@pytest.mark.parametrize(
    ("number", "fault", "apart_s", "kept"),
    [
        (signal.SIGINT, KeyboardInterrupt, 0.02, ["rounds"]),
        (signal.SIGINT, KeyboardInterrupt, 2.0, []),
        (signal.SIGTERM, Terminated, 2.0, ["rounds"]),
    ],
)
def test_a_second_signal_does_not_disturb_the_saving_after_the_first(
    number, fault, apart_s, kept, clock
):
    saved: list[str] = []
    with pytest.raises(fault):
        signalled_twice(number, clock, apart_s, saved)

    assert saved == kept
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
