"""Data sets that a scenario can name, and the loading of one, also in a thread."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Annotated

from pydantic import Field

from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.digits import DigitsSettings
from fleetsim.learning.data.folder import FolderSettings
from fleetsim.learning.data.labelled_text import LabelledTextSettings
from fleetsim.learning.data.published.celeba import CelebASettings
from fleetsim.learning.data.published.cifar10 import Cifar10Settings
from fleetsim.learning.data.published.cinic10 import Cinic10Settings
from fleetsim.learning.data.published.emnist import EmnistSettings
from fleetsim.learning.data.published.extrasensory import ExtraSensorySettings
from fleetsim.learning.data.published.mnist import FashionMnistSettings, MnistSettings
from fleetsim.learning.data.published.shakespeare import ShakespeareSettings
from fleetsim.learning.data.published.tiny_imagenet import TinyImageNetSettings
from fleetsim.learning.data.published.wikitext import WikiText2Settings
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.synthetic import SyntheticSettings

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

REGISTRY: Mapping[str, RemoteSet] = dict(sorted(SETS.items()))
"""Every set that can be fetched, by name."""


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
