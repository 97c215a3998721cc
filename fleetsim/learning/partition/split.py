"""Which client holds which training sample.

* `iid`: a random split into parts whose sizes differ by at most one.
* `dirichlet`: per label, the shares of the clients are drawn from a symmetric Dirichlet
  distribution (Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for
  federated visual classification", arXiv:1909.06335; in the per-label form of Li, Diao, Chen, He,
  "Federated learning on non-IID data silos: an experimental study", ICDE 2022).
* `shards`: the samples, sorted by label, are cut into equal shards, and every client gets a few
  (McMahan et al., "Communication-efficient learning of deep networks from decentralized data",
  AISTATS 2017, section 3; sampling.py of Yoruko-Tang/FedCor@d941083).
* `natural`: the clients that the data set has by itself; a smaller fleet gets some of them at
  random.
* `client-dirichlet`, `one-class`, `partly-iid`: see the modules of these names.

A client always has at least one sample. Clients never share one.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.client_dirichlet import ClientDirichletSettings, client_dirichlet
from fleetsim.learning.partition.membership import members
from fleetsim.learning.partition.one_class import OneClassSettings, one_class
from fleetsim.learning.partition.partly_iid import PartlyIidSettings, partly_iid
from fleetsim.rng import stream
from fleetsim.schema.faults import Fault
from fleetsim.schema.ranges import Samples
from fleetsim.schema.strict_yaml import spelled
from fleetsim.settings import Settings

MAX_ATTEMPTS = 1000
"""How often a Dirichlet split is drawn anew before the scenario is called infeasible."""


class IidSettings(Settings):
    """A random split into equal parts."""

    kind: Literal["iid"] = "iid"


class DirichletSettings(Settings):
    """Per label, the clients' shares are drawn from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: Annotated[float, Field(ge=1e-6, le=1e6)]
    """Concentration: large values give every client all labels alike, small ones few labels each
    and unequal numbers of samples."""
    min_samples: Samples = 10
    """The least that a client is to have."""
    when_short: Literal["redraw", "top-up"] = "redraw"
    """What happens if clients have fewer: the split is drawn anew until none has, or they are given
    random samples of the client that has most, as where alpha is so small that most have none."""


class ShardsSettings(Settings):
    """Equal shards of the samples sorted by label, dealt at random."""

    kind: Literal["shards"] = "shards"
    shards_per_client: Samples = 2
    """Shards of each client, so about how many labels it sees at most."""
    single_label: bool = False
    """Cut the shards inside the labels, so that none holds two: what a label's samples leave over,
    and shards beyond those needed, belong to nobody."""


class NaturalSettings(Settings):
    """The clients that the data set has by itself, such as MNIST's writers.

    If they are more than the fleet, so many of them at random.
    """

    kind: Literal["natural"] = "natural"


PartitionSettings = Annotated[
    IidSettings
    | DirichletSettings
    | ShardsSettings
    | NaturalSettings
    | ClientDirichletSettings
    | OneClassSettings
    | PartlyIidSettings,
    Field(discriminator="kind"),
]


def split(
    settings: PartitionSettings,
    *,
    labels: IntArray,
    owner: IntArray | None,
    num_clients: int,
    seed: int,
) -> tuple[IntArray, ...]:
    """Training samples of every client: ascending indices, disjoint, at least one each.

    Together they are all samples, but for `shards`, which leaves the remainder out (see there), and
    `natural`, which leaves out what belongs to owners that were not drawn.

    Args:
        settings: how to split.
        labels: label of every training sample [n], or labels [n, t] of sequences, which have no
            label of their own: only `iid` and `natural` split these.
        owner: natural client of every training sample [n], if the data set has such.
        num_clients: number of clients N.
        seed: the scenario's seed.

    Raises:
        ScenarioError: the split is impossible; the message names the key and the way out.
        ValueError: `num_clients` is under 1.
    """
    if num_clients < 1:
        raise ValueError(f"num_clients must be at least 1, got {num_clients}")
    short = shortage(settings, num_samples=len(labels), num_clients=num_clients)
    if short is not None:
        raise ScenarioError(f"{spelled(short[0])}: {short[1]}")
    if labels.ndim > 1 and not isinstance(settings, IidSettings | NaturalSettings):
        raise ScenarioError(
            f"task.partition.kind: {settings.kind} splits by label, but every sample of this data "
            f"set is a sequence with {labels.shape[1]} of them; choose iid or natural"
        )
    match settings:
        case IidSettings():
            return _iid(len(labels), num_clients, seed)
        case DirichletSettings():
            return _dirichlet(settings, labels, num_clients, seed)
        case ShardsSettings():
            return _shards(settings, labels, num_clients, seed)
        case NaturalSettings():
            return _natural(owner, num_clients, seed)
        case ClientDirichletSettings():
            return client_dirichlet(settings, labels, num_clients, seed)
        case OneClassSettings():
            return one_class(labels, num_clients, seed)
        case PartlyIidSettings():
            return partly_iid(settings, labels, num_clients, seed)


def shortage(settings: PartitionSettings, *, num_samples: int, num_clients: int) -> Fault | None:
    """The key that asks for more samples than there are, and the way out; None if there are enough.

    Only numbers are looked at, so that a scenario is checked before its data are read.
    """
    if num_clients > num_samples:
        says = (
            f"{num_clients} clients are more than the {num_samples} training samples; at most"
            f" {num_samples} clients can have one each; lower it, or choose a larger data set"
        )
        return ("fleet", "size"), says
    each = num_samples // num_clients
    match settings:
        case DirichletSettings() | ClientDirichletSettings():
            key, wanted, each_need = "min_samples", settings.min_samples, "samples each need"
        case ShardsSettings():
            key, wanted = "shards_per_client", settings.shards_per_client
            each_need = "shards, of a sample at least, each need"
        case _:
            return None
    if wanted <= each:
        return None
    says = (
        f"{num_clients} clients with {wanted} {each_need} {num_clients * wanted}, but there are"
        f" {num_samples}; lower {key} to {each} or less, or fleet.size"
    )
    return ("task", "partition", key), says


def _iid(num_samples: int, num_clients: int, seed: int) -> tuple[IntArray, ...]:
    order = stream(seed, "partition/iid").permutation(num_samples)
    return tuple(np.sort(part) for part in np.array_split(order, num_clients))


def _dirichlet(
    settings: DirichletSettings, labels: IntArray, num_clients: int, seed: int
) -> tuple[IntArray, ...]:
    """Client k gets the share p_lk of the n_l samples of label l, p_l ~ Dir_N(alpha).

    Whole samples come from rounding the cumulated shares down: client k gets those between
    floor(n_l * (p_l1 + .. + p_l(k-1))) and floor(n_l * (p_l1 + .. + p_lk)) of the label's samples
    in random order. Attempt a draws its shares from an address of its own.
    """
    values, label_sizes = np.unique(labels, return_counts=True)
    most = 0
    for attempt in range(MAX_ATTEMPTS):
        edges = _dirichlet_edges(settings.alpha, label_sizes, num_clients, seed, attempt)
        fewest = int(np.diff(edges, axis=1).sum(axis=0).min())
        if fewest >= settings.min_samples or settings.when_short == "top-up":
            break
        most = max(most, fewest)
    else:
        raise ScenarioError(
            f"task.partition.min_samples: in none of {MAX_ATTEMPTS} draws had each of the "
            f"{num_clients} clients {settings.min_samples} samples, {most} at most; lower it or "
            f"fleet.size, raise task.partition.alpha above {settings.alpha:g}, or set "
            "task.partition.when_short to top-up"
        )
    client_of = np.empty(len(labels), dtype=np.int64)
    for label, row in zip(values, edges, strict=True):
        order = stream(seed, "partition/dirichlet-order", label).permutation(
            np.flatnonzero(labels == label)
        )
        client_of[order] = np.repeat(np.arange(num_clients), np.diff(row))
    _top_up(client_of, num_clients, settings.min_samples, seed)
    return members(client_of, num_clients)


def _top_up(client_of: IntArray, num_clients: int, min_samples: int, seed: int) -> None:
    """Give each client that has too few, in ascending order, of the one that has most, in place.

    Who has most is asked anew for every gift, and keeps the least that a client is to have. There
    are enough samples for all, so whoever has most has more than that while another has less.
    """
    sizes = np.bincount(client_of, minlength=num_clients)
    for short in np.flatnonzero(sizes < min_samples).tolist():
        draws = stream(seed, "partition/dirichlet-top-up", short)
        while sizes[short] < min_samples:
            giver = int(sizes.argmax())
            num = min(min_samples - sizes[short], sizes[giver] - min_samples)
            given = draws.choice(np.flatnonzero(client_of == giver), num, replace=False)
            client_of[given] = short
            sizes[giver] -= num
            sizes[short] += num


def _dirichlet_edges(
    alpha: float, label_sizes: IntArray, num_clients: int, seed: int, attempt: int
) -> IntArray:
    """Where each label's samples are cut [labels, N+1]."""
    shares = stream(seed, "partition/dirichlet", attempt).dirichlet(
        np.full(num_clients, alpha), size=len(label_sizes)
    )
    inner = np.floor(np.cumsum(shares, axis=1)[:, :-1] * label_sizes[:, None]).astype(np.int64)
    return np.hstack([np.zeros((len(label_sizes), 1), dtype=np.int64), inner, label_sizes[:, None]])


def _shards(
    settings: ShardsSettings, labels: IntArray, num_clients: int, seed: int
) -> tuple[IntArray, ...]:
    """N * s shards of floor(n / (N * s)) samples each, s of them to every client.

    As in the sources, the n mod (N * s) samples at the end of the sorted order belong to nobody,
    and a shard holds two labels where a label's samples end inside it, unless `single_label`.
    """
    num_shards = num_clients * settings.shards_per_client
    shard_size = len(labels) // num_shards
    by_label = np.argsort(labels, kind="stable")
    if settings.single_label:
        shards = _pure_shards(labels[by_label], by_label, num_shards)
    else:
        shards = by_label[: num_shards * shard_size].reshape(num_shards, shard_size)
    dealt = stream(seed, "partition/shards").permutation(len(shards))[:num_shards]
    hands = dealt.reshape(num_clients, settings.shards_per_client)
    return tuple(np.sort(shards[hand].ravel()) for hand in hands)


def _pure_shards(labels: IntArray, samples: IntArray, num_shards: int) -> IntArray:
    """At least so many shards of one size, the largest possible, each within one label.

    Args:
        labels: ascending [n].
        samples: in the same order [n].
        num_shards: at most n.
    """
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    label_sizes = np.diff(starts, append=len(labels))
    size = len(labels) // num_shards
    # It ends: n shards of one sample are enough.
    while (label_sizes // size).sum() < num_shards:
        size -= 1
    cut = [
        samples[start : start + num * size].reshape(num, size)
        for start, num in zip(starts, label_sizes // size, strict=True)
    ]
    return np.concatenate(cut)


def _natural(owner: IntArray | None, num_clients: int, seed: int) -> tuple[IntArray, ...]:
    """Samples of so many owners, drawn without replacement and kept in ascending order."""
    if owner is None:
        raise ScenarioError(
            "task.partition.kind: natural needs a data set with clients of its own, such as "
            "synthetic or mnist with writers: true; else choose iid, dirichlet or shards"
        )
    owners, client_of = np.unique(owner, return_inverse=True)
    if len(owners) < num_clients:
        raise ScenarioError(
            f"fleet.size: {num_clients} clients, but the data set has {len(owners)} of its own; "
            f"set fleet.size to {len(owners)} or less, or task.partition.kind to another"
        )
    theirs = members(client_of, len(owners))
    drawn = stream(seed, "partition/natural").permutation(len(owners))[:num_clients]
    return tuple(theirs[number] for number in np.sort(drawn))
