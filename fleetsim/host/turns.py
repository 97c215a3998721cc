"""Turns of runs in the threads of one process, and what belongs to one run at a time.

Libraries keep settings for a whole process: torch's number of threads, global random generators.
So one thread at a time has the turn. A callback of the caller's runs without it (`as_the_caller`):
a run in another thread that it waits for can go on.

A process that is forked meanwhile has copies of locks of libraries, and no thread that opens them.
There a turn is refused if another thread than the forking one had it.
"""

import os
import random  # noqa: TID251 - kept as the caller has it
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from fleetsim.errors import ScenarioError


class Held(Protocol):
    """Settings of the process that a turn holds."""

    def take(self) -> None:
        """Note the caller's settings, and set those of a run."""

    def give_back(self) -> None:
        """Set the caller's settings as they were noted."""


class _Turn:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.owner: int | None = None
        self.depth = 0
        self.held: list[Held] = []
        self.is_lost = False
        """True in a process that was forked while another thread had the turn."""

    def begin(self, depth: int, held: list[Held]) -> None:
        if self.is_lost:
            raise ScenarioError(
                "this process was forked while another thread of its parent was in a run, so that"
                " locks of libraries may never open; start processes before the run, or by"
                " multiprocessing.get_context('spawn')"
            )
        with self.changed:
            self.changed.wait_for(lambda: self.owner is None)
            self.owner, self.depth, self.held = threading.get_ident(), depth, held

    def end(self) -> tuple[int, list[Held]]:
        """Let the next thread have the turn; return what `begin` continues it with."""
        with self.changed:
            state = self.depth, self.held
            self.owner, self.depth, self.held = None, 0, []
            # All: one alone may be interrupted just now, and the others would wait forever.
            self.changed.notify_all()
        return state

    def leave(self) -> None:
        """End a block of the thread that has the turn; the outermost one ends the turn."""
        self.depth -= 1
        if self.depth == 0:
            self.end()

    @property
    def is_ours(self) -> bool:
        return self.owner == threading.get_ident()

    def after_fork(self) -> None:
        self.changed = threading.Condition()
        if self.owner is not None and not self.is_ours:
            self.is_lost = True


_turn = _Turn()
if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_turn.after_fork)


@contextmanager
def turn(*kinds: Callable[[], Held]) -> Iterator[None]:
    """Have the turn within the block, or a nested one; wait for it if another thread has it."""
    if _turn.is_ours:
        _turn.depth += 1
    else:
        _turn.begin(1, [])
    num_before = len(_turn.held)
    try:
        for kind in kinds:
            one = kind()
            one.take()
            _turn.held.append(one)
        yield
    finally:
        # Not ours where waiting for the turn after a callback was interrupted.
        if _turn.is_ours:
            with ExitStack() as ends:  # in reverse order, the others even if one of them raises
                ends.callback(_turn.leave)
                for one in _turn.held[num_before:]:
                    ends.callback(one.give_back)
                del _turn.held[num_before:]


@contextmanager
def as_the_caller() -> Iterator[None]:
    """Give the turn and all that it holds back within the block, for a callback of the caller's."""
    if not _turn.is_ours:
        yield
        return
    for one in reversed(_turn.held):
        one.give_back()
    depth, held = _turn.end()
    try:
        yield
    finally:
        _turn.begin(depth, held)
        for one in held:
            one.take()


class Environment:
    """The caller's environment variables; libraries set some of theirs when they are imported."""

    def take(self) -> None:
        """Note the present ones."""
        self._before = dict(os.environ)

    def give_back(self) -> None:
        """Set those that were noted, and no others."""
        for name in [name for name in os.environ if name not in self._before]:
            del os.environ[name]
        os.environ.update(self._before)


@contextmanager
def unmoved() -> Iterator[None]:
    """Restore Python's global random generator and the environment after a block of imports."""
    before, environment = random.getstate(), Environment()
    environment.take()
    try:
        yield
    finally:
        random.setstate(before)
        environment.give_back()
