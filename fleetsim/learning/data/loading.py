"""Data sets that a scenario can name, and the loading of one, also in a thread."""

import threading
from concurrent.futures import Future
from functools import partial
from typing import Annotated

from pydantic import Field

from fleetsim.learning.data.built_in import DigitsSettings, SyntheticSettings
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.folder import FolderSettings
from fleetsim.learning.data.labelled_text import LabelledTextSettings
from fleetsim.learning.data.published.cifar10 import Cifar10Settings, Cinic10Settings
from fleetsim.learning.data.published.extrasensory import ExtraSensorySettings
from fleetsim.learning.data.published.mnist import (
    EmnistSettings,
    FashionMnistSettings,
    MnistSettings,
)
from fleetsim.learning.data.published.texts import ShakespeareSettings, WikiText2Settings
from fleetsim.learning.data.published.zipped_pictures import CelebASettings, TinyImageNetSettings

DatasetSettings = Annotated[
    DigitsSettings
    | MnistSettings
    | FashionMnistSettings
    | EmnistSettings
    | Cifar10Settings
    | Cinic10Settings
    | TinyImageNetSettings
    | CelebASettings
    | ExtraSensorySettings
    | ShakespeareSettings
    | WikiText2Settings
    | LabelledTextSettings
    | SyntheticSettings
    | FolderSettings,
    Field(discriminator="kind"),
]


def load_dataset(settings: DatasetSettings, *, seed: int, num_clients: int) -> Dataset:
    """Return the data set that a scenario names; see `DatasetKind.load`."""
    return settings.load(seed=seed, num_clients=num_clients)


class Prefetch:
    """Data set that is being loaded in a thread, while torch is imported.

    Files are unpacked and hashed outside Python's lock, so both take the time of the longer.
    """

    def __init__(self, settings: DatasetSettings, *, seed: int, num_clients: int) -> None:
        """Begin to load it; arguments are those of `load_dataset`."""
        self._arguments = settings, seed, num_clients
        self._future: Future[Dataset] | None = None
        # Two threads should not import at once.
        if not settings.imports_library:
            self._future = Future()
            # A daemon thread: a command that fails meanwhile does not wait for it.
            fill = partial(self._fill, self._future)
            threading.Thread(target=fill, name="fleetsim data", daemon=True).start()

    def take(self) -> Dataset:
        """Return the data set once it is loaded; it is not kept, another call loads it again."""
        future, self._future = self._future, None
        return self._load() if future is None else future.result()

    def _load(self) -> Dataset:
        settings, seed, num_clients = self._arguments
        return load_dataset(settings, seed=seed, num_clients=num_clients)

    def _fill(self, future: Future[Dataset]) -> None:
        try:
            future.set_result(self._load())
        except BaseException as fault:  # raised again by `take`
            future.set_exception(fault)
