"""A data set that is read while something else is done, such as importing torch.

Files are unpacked and hashed outside of Python's lock, so that both take the time of the longer.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.loading import DatasetSettings, load_dataset


class ReadAhead:
    """The data set that a scenario names, on its way."""

    def __init__(self, settings: DatasetSettings, *, seed: int, num_clients: int) -> None:
        """Begin to read it; arguments are those of `load_dataset`."""
        self._arguments = settings, seed, num_clients
        self._coming: Future[Dataset] | None = None
        # Two threads should not import at once.
        if not settings.imports_library:
            self._coming = Future()
            # A daemon: a command that fails meanwhile does not wait for it.
            threading.Thread(
                target=self._read, args=(self._coming,), name="fleetsim data", daemon=True
            ).start()

    def take(self) -> Dataset:
        """The data set, when it has been read; it is not kept here, and another call reads anew.

        Raises:
            DataError: as `load_dataset`.
            ScenarioError: likewise.
        """
        coming, self._coming = self._coming, None
        if coming is None:
            coming = Future()
            self._read(coming)
        return coming.result()

    def _read(self, coming: Future[Dataset]) -> None:
        settings, seed, num_clients = self._arguments
        try:
            coming.set_result(load_dataset(settings, seed=seed, num_clients=num_clients))
        except BaseException as fault:  # whatever it is: whoever asks raises it
            coming.set_exception(fault)
