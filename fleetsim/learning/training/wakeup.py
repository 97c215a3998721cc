"""How a sleeping process learns that a call has come.

Data on a local socket wake their reader at once on the core of who sends them, as if the sender
were about to sleep (Linux: `wake_up_interruptible_sync_poll` in `sock_def_readable`). A helper of a
pool then computes on the core on which the pool's own process computes, one after the other, while
another core stands idle or serves others. An eventfd wakes without that hint, so the helper sleeps
on one of these (eventfd(2)) and looks at its socket only for its end (POLLRDHUP, poll(2)).

Where there is no eventfd, helpers sleep on the socket.
"""

from __future__ import annotations

import os
import select
import socket
from dataclasses import dataclass

IS_THERE = hasattr(os, "eventfd")


@dataclass(frozen=True, slots=True)
class Bell:
    """An eventfd, known to a process and to the helper that was forked from it."""

    descriptor: int

    @classmethod
    def hung(cls) -> Bell:
        """A new one.

        Raises:
            OSError: there are no more descriptors.
        """
        return cls(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))

    def ring(self) -> None:
        """Wake whoever waits, or will."""
        os.eventfd_write(self.descriptor, 1)

    def wait(self, end: socket.socket) -> None:
        """Sleep until it rings, or the other side of a socket is closed; data do not count."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.register(end, select.POLLRDHUP)
        if any(descriptor == self.descriptor for descriptor, _ in poll.poll()):
            os.eventfd_read(self.descriptor)

    def take_down(self) -> None:
        """Close it in this process."""
        os.close(self.descriptor)
