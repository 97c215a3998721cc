"""Wake-up of a sleeping process by an eventfd.

Linux wakes the reader of a local socket on the sender's core, as if the sender were about to sleep
(`wake_up_interruptible_sync_poll` in `sock_def_readable`). A helper of a pool would then share a
core with the pool's own process, while another core is idle. An eventfd wakes without that hint. So
a helper sleeps on an eventfd (eventfd(2)), and polls its socket only for its end (POLLRDHUP,
poll(2)).

On systems without eventfd helpers sleep on the socket.
"""

from __future__ import annotations

import os
import select
import socket
from dataclasses import dataclass

IS_AVAILABLE = hasattr(os, "eventfd")


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Eventfd shared by a process and a helper that was forked from it."""

    descriptor: int

    @classmethod
    def create(cls) -> WakeUp:
        """Return a new eventfd.

        Raises:
            OSError: no descriptor is free.
        """
        return cls(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))

    def signal(self) -> None:
        """Wake the process that waits, or the next one that does."""
        os.eventfd_write(self.descriptor, 1)

    def wait(self, end: socket.socket) -> None:
        """Sleep until the signal, or until the other side of a socket is closed; ignore data."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.register(end, select.POLLRDHUP)
        if any(descriptor == self.descriptor for descriptor, _ in poll.poll()):
            os.eventfd_read(self.descriptor)

    def close(self) -> None:
        """Close the eventfd in this process."""
        os.close(self.descriptor)
