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
