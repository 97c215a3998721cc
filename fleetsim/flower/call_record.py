"""Calls of the server app on record, from which a resumed run replays it.

A server app cannot be stopped in the middle and saved. So a resumed run begins it anew, and answers
its calls before the checkpoint from the record: the same answers and draws lead to the same state.
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fleetsim.contracts import State
from fleetsim.errors import DataError
from fleetsim.record import atomic_files

FOLDER = "replies"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_AFRESH = "run afresh, or make the server app repeat its calls: no host time, no draws of its own"

Answer = list[Any] | str | None
"""Answer to a call, as JSON; long ones and replies are digests of files in the store."""


class CallRecord:
    """Record of the calls of one run, in order."""

    def __init__(self, folder: Path, *, is_kept: bool) -> None:
        """Begin a record whose store is in `folder`, the checkpoint of a run."""
        self._folder = folder / FOLDER
        self._is_kept = is_kept
        self._calls: list[list[Any]] = []
        self._num_replayed = 0
        self._stored: set[str] = set()

    @property
    def is_replaying(self) -> bool:
        """True while calls are answered from the record."""
        return self._num_replayed < len(self._calls)

    def answer(self, call: str, asked: str, live: Callable[[], Answer]) -> Answer:
        """Return the answer to a call with arguments `asked`: on record, or else `live`."""
        if not self.is_replaying:
            answer = live()
            if self._is_kept:
                self._calls.append([call, asked, answer])
            self._num_replayed = len(self._calls)
            return answer
        then, then_asked, answer = self._calls[self._num_replayed]
        if (call, asked) != (then, then_asked):
            differs = f"was {then} and is now {call}" if call != then else f"{call} differs"
            raise DataError(
                f"{self._folder.parent.parent}: cannot be resumed: call {self._num_replayed + 1} of"
                f" the server app {differs}; {_AFRESH}"
            )
        self._num_replayed += 1
        result: Answer = answer
        return result

    def put(self, data: bytes) -> str:
        """Store bytes and return their SHA-256."""
        digest = hashlib.sha256(data).hexdigest()
        if self._is_kept and digest not in self._stored:
            atomic_files.make_inner_folder(self._folder, hint=atomic_files.GO_ON)
            atomic_files.write(self._folder / digest, data, syncs_folder=False)
            self._stored.add(digest)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the bytes of a digest."""
        if not _DIGEST.fullmatch(digest):
            raise DataError(f"{self._folder.parent}: holds no digest of a reply; {_AFRESH}")
        data = atomic_files.read(self._folder / digest, hint=_AFRESH)
        if hashlib.sha256(data).hexdigest() != digest:
            raise DataError(f"{self._folder / digest}: is damaged; {_AFRESH}")
        self._stored.add(digest)
        return data

    def state(self) -> State:
        """Return everything that `restore` needs, besides the store."""
        if self._stored:
            atomic_files.sync_folder(self._folder)
        return {"calls": np.frombuffer(json.dumps(self._calls).encode(), dtype=np.uint8)}

    def restore(self, state: State) -> None:
        """Restore what `state` returned; the calls are then replayed."""
        self._calls = json.loads(state["calls"].tobytes())

    def clear(self) -> None:
        """Remove the store of a run that is done."""
        if self._folder.is_symlink() or not self._folder.is_dir():
            return
        atomic_files.remove_temporaries(self._folder)
        for path in sorted(self._folder.iterdir()):
            if _DIGEST.fullmatch(path.name):
                atomic_files.remove(path)
        if not any(self._folder.iterdir()):
            self._folder.rmdir()
