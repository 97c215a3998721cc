"""Data sets that a scenario can name, and the call that loads one."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, get_args

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
from fleetsim.learning.data.remote_set import RemoteSet
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

_PUBLISHED = (known for kind in get_args(get_args(DatasetSettings)[0]) for known in kind.published)
REGISTRY: Mapping[str, RemoteSet] = {
    known.name: known for known in sorted(_PUBLISHED, key=attrgetter("name"))
}
"""Every set that can be fetched, by name."""


def load_dataset(settings: DatasetSettings, *, seed: int, num_clients: int) -> Dataset:
    """Return the data set that a scenario names; see `DatasetKind.load`."""
    return settings.load(seed=seed, num_clients=num_clients)
