"""Interface of the data sets that a scenario can name: settings, sizes known in advance, loading.

A new data set is a subclass of `DatasetKind` in a module of its own, and its name in
`fleetsim.learning.data.loading.DatasetSettings`.
"""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.remote_set import RemoteSet
from fleetsim.settings import Settings


class DatasetKind(Settings):
    """Settings of one kind of data set, which load it.

    The sizes are those that are known before any sample is read. They are stated by the authors of
    the set, or by the headers of the user's own files. So a scenario with too many clients is
    refused without reading the data.
    """

    kind: str
    published: ClassVar[tuple[RemoteSet, ...]] = ()
    """Published sets that it is loaded from; `fleetsim data fetch` knows them by name."""
    how_to_get: ClassVar[str] = "built in"
    """Source of a set that is not fetched, for `fleetsim list datasets`."""
    has_user_files: ClassVar[bool] = False
    """True: the files are the user's own, whose form no checksum verifies."""
    imports_library: ClassVar[bool] = False
    """True: loading imports a library, so it does not run in a thread beside other imports."""

    training_samples: ClassVar[int | None] = None
    """Number of training samples; None: `num_training` or the files tell."""
    natural_clients: ClassVar[int | None] = None
    """Number of natural clients, 0 if it has none; None: `num_natural` or the files tell."""
    labels: ClassVar[int | None] = None
    """Number of labels; None: `num_labels` or the files tell."""

    @abstractmethod
    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the data set; reads local files only.

        Only a synthetic set depends on seed and number of clients. Files that are missing, broken
        or not the published ones are a `DataError`.
        """

    def num_training(self, user_folder: Path | None = None) -> int | None:
        """Return the number of training samples; None if only the files tell.

        Without the folder of the user's own data set its files are not read; a damaged one is a
        `DataError`.
        """
        return self.training_samples

    def num_natural(self, user_folder: Path | None = None) -> int | None:
        """Return the number of natural clients, 0 if it has none; None if only the files tell.

        Arguments and errors are those of `num_training`.
        """
        return self.natural_clients

    def num_labels(self) -> int | None:
        """Return the number of labels of the training samples; None if only the files tell."""
        return self.labels

    def without_clients(self, user_folder: Path | None = None) -> str:
        """Return the error message for the partition `natural` of a set without natural clients."""
        return f"{self.kind} has no clients of its own; choose iid, dirichlet or shards"
