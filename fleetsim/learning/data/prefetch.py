"""Loading of a data set in a thread, while torch is imported.

Files are unpacked and hashed outside Python's lock, so both together take the time of the longer.
"""

import threading
from concurrent.futures import Future

from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.loading import DatasetSettings, load_dataset


class Prefetch:
    """Data set that is being loaded."""

    def __init__(self, settings: DatasetSettings, *, seed: int, num_clients: int) -> None:
        """Begin to load it; arguments are those of `load_dataset`."""
        self._arguments = settings, seed, num_clients
        self._future: Future[Dataset] | None = None
        # Two threads should not import at once.
        if not settings.imports_library:
            self._future = Future()
            # A daemon thread: a command that fails meanwhile does not wait for it.
            threading.Thread(
                target=self._load, args=(self._future,), name="fleetsim data", daemon=True
            ).start()

    def take(self) -> Dataset:
        """Return the data set once it is loaded; it is not kept, another call loads it again."""
        future, self._future = self._future, None
        if future is None:
            future = Future()
            self._load(future)
        return future.result()

    def _load(self, future: Future[Dataset]) -> None:
        settings, seed, num_clients = self._arguments
        try:
            future.set_result(load_dataset(settings, seed=seed, num_clients=num_clients))
        except BaseException as fault:  # raised again by `take`
            future.set_exception(fault)
