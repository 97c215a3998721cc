from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest

from fleetsim.learning.training import wakeup
from fleetsim.learning.training.ipc import receive, send
from fleetsim.learning.training.wakeup import WakeUp

pytestmark = pytest.mark.skipif(not wakeup.IS_AVAILABLE, reason="the system has no eventfd")

_SOON_S = 0.3
_LATE_S = 60.0


@pytest.fixture
def eventfd() -> Iterator[WakeUp]:
    eventfd = WakeUp.create()
    yield eventfd
    eventfd.close()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def sleeper(eventfd: WakeUp, end: socket.socket) -> Thread:
    thread = Thread(target=eventfd.wait, args=(end,), daemon=True)
    thread.start()
    return thread


def test_data_do_not_wake_but_the_signal_does(
    eventfd: WakeUp, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    asleep = sleeper(eventfd, theirs)
    ours.sendall(b"data")
    asleep.join(_SOON_S)
    assert asleep.is_alive()
    eventfd.signal()
    asleep.join(_LATE_S)

    assert not asleep.is_alive()


def test_closing_the_other_side_wakes(
    eventfd: WakeUp, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    asleep = sleeper(eventfd, theirs)
    ours.close()
    asleep.join(_LATE_S)

    assert not asleep.is_alive()


def test_a_bell_that_rang_before_is_heard_once(
    eventfd: WakeUp, ends: tuple[socket.socket, socket.socket]
) -> None:
    eventfd.signal()
    eventfd.wait(ends[1])
    asleep = sleeper(eventfd, ends[1])
    asleep.join(_SOON_S)
    assert asleep.is_alive()
    eventfd.signal()
    asleep.join(_LATE_S)

    assert not asleep.is_alive()


def test_a_message_that_no_socket_holds_comes_through(
    eventfd: WakeUp, ends: tuple[socket.socket, socket.socket]
) -> None:
    """200 arrays of 60 kB are sent within the pickle, one of 4 MB after it."""
    ours, theirs = ends
    message = [np.full(7_500, float(i)) for i in range(200)] + [np.arange(500_000.0)]
    sender = Thread(target=send, args=(ours, message, eventfd), daemon=True)
    sender.start()
    eventfd.wait(theirs)
    found = receive(theirs)
    sender.join(_LATE_S)

    assert not sender.is_alive()
    assert all(map(np.array_equal, found, message))
    assert len(found) == len(message)
