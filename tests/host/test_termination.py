"""Ctrl-C that comes twice at once, as of a key that bounces, counts once, and so does SIGTERM."""

import signal

import pytest

from fleetsim.host.termination import Terminated, terminable


@pytest.fixture
def clock(monkeypatch):
    """Seconds of the monotonic clock, set by the test."""
    now_s = [100.0]
    monkeypatch.setattr("fleetsim.host.termination.time.monotonic", lambda: now_s[0])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield now_s
    signal.signal(signal.SIGINT, before)


@terminable()
def pressed_twice(clock, *, apart_s, saved):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        clock[0] += apart_s
        signal.raise_signal(signal.SIGINT)
        saved.append("rounds")
        raise


@pytest.mark.parametrize(("apart_s", "kept"), [(0.02, ["rounds"]), (2.0, [])])
def test_a_second_ctrl_c_at_once_does_not_disturb_the_saving_after_the_first(apart_s, kept, clock):
    saved: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        pressed_twice(clock, apart_s=apart_s, saved=saved)

    assert saved == kept
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@terminable()
def ended_twice(saved):
    try:
        signal.raise_signal(signal.SIGTERM)
    except Terminated:
        signal.raise_signal(signal.SIGTERM)
        saved.append("rounds")
        raise


def test_a_second_sigterm_does_not_disturb_the_saving_after_the_first():
    saved: list[str] = []
    with pytest.raises(Terminated):
        ended_twice(saved)

    assert saved == ["rounds"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
