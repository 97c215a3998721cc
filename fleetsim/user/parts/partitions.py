"""Partitions of the user's own."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from fleetsim import rng
from fleetsim.contracts import IntArray, Partition
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.client_samples import PartitionSettings
from fleetsim.learning.partition.partition_kind import PartitionKind
from fleetsim.quoting import type_name
from fleetsim.user.plugin import PluginKind, PluginSettings, accepts, kinds_of
from fleetsim.user.watched_calls import WatchedCalls, refused, same

_PURPOSE = "partition/plug-in"
SPLITS_APART = (
    "split gives two results with equal draws; it must use neither a clock, nor other generators,"
    " nor what an earlier object has left"
)

_CASES = ((240, 8), (500, 3), (90, 1))
"""Numbers of samples and of clients."""
_NUM_LABELS = 6


class PartitionPluginSettings(PluginSettings, PartitionKind):
    """Settings of a partition of the user's own."""

    # Asked of the user's object once it is made.
    splits_sequences: ClassVar[bool] = True

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of every client; not all samples need to be there."""
        part, label = self.part(), self.plugin.label
        if labels.ndim > 1 and getattr(part, "splits_sequences", False) is not True:
            raise ScenarioError(
                f"{label}: splits by one label, but every sample of this data set is a sequence"
                f" with {labels.shape[1]}; choose iid or natural, or set splits_sequences = True in"
                " it"
            )
        given = labels.view()
        given.flags.writeable = False
        calls = WatchedCalls(label)

        def made_by(one: Any) -> Any:
            return calls.watched(
                "split", lambda: one.split(given, num_clients, rng.stream(seed, _PURPOSE))
            )

        answer = made_by(part)
        message = split_fault(answer, num_samples=len(labels), num_clients=num_clients)
        if message is not None:
            raise refused(label, f"split returned {message}")
        if not same(
            *([np.asarray(each) for each in made] for made in (answer, made_by(self.part())))
        ):
            raise refused(label, SPLITS_APART)
        return tuple(np.sort(np.asarray(each)).astype(np.int64) for each in answer)


class PartitionPlugins(PluginKind):
    """Kind of the partitions, at `task.partition`."""

    name = "partition"
    noun = "a partition"
    key_path = ("task", "partition")
    protocol = Partition
    marks = frozenset({"split"})
    bundled = kinds_of(PartitionSettings)
    settings_base = PartitionPluginSettings
    takes_functions = True

    @classmethod
    def claims_function(cls, function: Callable[..., Any]) -> bool:
        """Return whether a function takes labels, number of clients and generator."""
        return accepts(function, *cls.methods()["split"])

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `PluginKind.check`."""
        for num_samples, num_clients in _CASES:
            labels = rng.stream(1, "plug-in check/labels").integers(0, _NUM_LABELS, num_samples)
            answers = []
            for part in (make(), make()):
                generator = rng.stream(1, "plug-in check/split", num_clients)
                given = labels.copy()
                answer = calls.call(
                    part, "split", given, num_clients, generator, names=("labels", "num_clients")
                )
                message = split_fault(answer, num_samples=num_samples, num_clients=num_clients)
                if message is not None:
                    of = f"{num_samples} samples and num_clients={num_clients}"
                    raise calls.refused(f"split returned {message} (of {of})")
                answers.append([np.asarray(each) for each in answer])
            if not same(*answers):
                raise calls.refused(SPLITS_APART)


def split_fault(answer: Any, *, num_samples: int, num_clients: int) -> str | None:
    """Return what an answer of `split` is instead of a partition of samples 0..n-1."""
    if not isinstance(answer, Sequence | np.ndarray) or isinstance(answer, str):
        return f"{type_name(answer)}, not a list of arrays, one for each client"
    if len(answer) != num_clients:
        return f"{len(answer)} arrays, not an array for each of {num_clients} clients"
    owner = np.full(num_samples, -1, dtype=np.int64)
    for client, each in enumerate(answer):
        try:
            indices = np.asarray(each)
        except ValueError:
            return f"no array of indices for client {client}"
        if indices.size == 0:
            return f"no sample for client {client}; every client needs one"
        if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
            return f"{indices.dtype} of shape {indices.shape} for client {client}, not indices [n]"
        wrong = indices[(indices < 0) | (indices >= num_samples)]
        if wrong.size:
            return f"sample {wrong[0]} for client {client}; there are 0 to {num_samples - 1}"
        if np.unique(indices).size < indices.size:
            return f"a sample twice for client {client}"
        shared = owner[indices]
        if (shared >= 0).any():
            sample = indices[shared >= 0][0]
            return f"sample {sample} for clients {owner[sample]} and {client}"
        owner[indices] = client
    return None
