"""What a selector's answer asks of everybody it chose, if it is an answer that can be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetsim import rng
from fleetsim.contracts import Cohort, FloatArray, IntArray, Work
from fleetsim.engine.tasks.task import Task


class Ask(NamedTuple):
    """What a client that was chosen is to do."""

    client: int
    work: Work
    """Whole training, what it trained in a probe included."""
    upload_fraction: float = 1.0
    """Share of its update that it is to send."""
    weight: float | None = None
    """What its answer counts, see `Report.weight`."""
    is_share: bool = False
    goes_on_from: Task | None = None
    """Probe whose training it goes on with; None: it begins anew."""


def asks_of(cohort: Cohort, usual: Work, trained: Mapping[int, Task]) -> list[Ask]:
    """What a selector's answer asks of each client, in its order.

    Args:
        cohort: the answer; its clients are checked already.
        usual: the scenario's training.
        trained: by client, the delivered probe of this round that trained the global model.

    Raises:
        ValueError: it cannot be asked; the message says what must be given instead.
    """
    clients: list[int] = cohort.clients.tolist()
    size = len(clients)
    if cohort.asks_epoch_losses:
        usual = replace(usual, tells_epoch_losses=True)
    own = (
        cohort.epochs,
        cohort.steps,
        cohort.clock_fraction,
        cohort.upload_fraction,
        cohort.weights,
        cohort.continues,
    )
    if all(asked is None for asked in own) and not cohort.are_shares:
        return [Ask(client, usual) for client in clients]
    clocks, works = cohort.clock_fraction, [usual] * size
    if cohort.epochs is not None:
        if cohort.steps is not None:
            raise ValueError("steps or epochs, got both")
        counts = _counts("epochs", cohort.epochs, size)
        works = [replace(usual, epochs=count, steps=None) for count in counts]
    elif cohort.steps is not None:
        counts = _counts("steps", cohort.steps, size)
        works = [replace(usual, epochs=0, steps=count) for count in counts]
    if clocks is not None:
        fractions = _numbers("clock_fraction", clocks, usual.clock_fraction, size, most=1.0)
        works = [
            replace(work, clock_fraction=clock)
            for work, clock in zip(works, fractions, strict=True)
        ]
    uploads = _numbers("upload_fraction", cohort.upload_fraction, 1.0, size, most=1.0)
    weights: Iterable[float | None] = [None] * size
    if cohort.weights is not None:
        weights = _numbers("weights", cohort.weights, 1.0, size)
    elif cohort.are_shares:
        raise ValueError("weights where they are shares, got None")
    before = _continued(cohort, works, trained)
    return [
        Ask(client, work, upload, weight, cohort.are_shares, probe)
        for client, work, upload, weight, probe in zip(
            clients, works, uploads, weights, before, strict=True
        )
    ]


def in_part(asks: list[Ask], usual: Work, *, chance: float, address: tuple[int, int]) -> list[Ask]:
    """What they come to where some clients train only a part, drawn 1 ... E - 1 epochs (or steps).

    Who was asked for more or less than usual, or goes on from a probe, does all of it.

    Args:
        asks: what the selector asks of everybody.
        usual: the scenario's training.
        chance: that a client does only a part.
        address: of the draws, seed and number of the choice; the client's id completes it.

    Source: Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, section 5.2,
    and litian96/FedProx@d2a4501, where a given share of every cohort is drawn, not each by itself.
    """
    if chance == 0.0:
        return asks
    seed, number = address

    def part(ask: Ask) -> Ask:
        work = ask.work
        is_usual = (work.epochs, work.steps) == (usual.epochs, usual.steps)
        draws = rng.stream(seed, "partial training", number, ask.client)
        if not is_usual or ask.goes_on_from is not None or draws.random() >= chance:
            return ask
        count = int(draws.integers(1, usual.steps or usual.epochs))
        less = replace(work, epochs=count) if usual.steps is None else replace(work, steps=count)
        return ask._replace(work=less)

    return [part(ask) for ask in asks]


def _counts(name: str, values: IntArray, size: int) -> list[int]:
    counts = np.asarray(values)
    if counts.shape != (size,) or counts.dtype.kind not in "iu" or (counts < 1).any():
        raise _fault(name, f"{size} whole numbers of at least 1", counts)
    asked: list[int] = counts.tolist()
    return asked


def _numbers(
    name: str, values: FloatArray | None, default: float, size: int, *, most: float | None = None
) -> list[float]:
    """Finite numbers above 0, and at most `most`."""
    if values is None:
        return [default] * size
    array = np.asarray(values, dtype=np.float64)
    is_right = (array > 0.0) & (array < np.inf if most is None else array <= most)
    if array.shape != (size,) or not is_right.all():
        within = "finite numbers above 0" if most is None else f"numbers in (0, {most:g}]"
        raise _fault(name, f"{size} {within}", array)
    numbers: list[float] = array.tolist()
    return numbers


def _continued(cohort: Cohort, works: list[Work], trained: Mapping[int, Task]) -> list[Task | None]:
    """The probe that each goes on from."""
    if cohort.continues is None:
        return [None] * len(works)
    asked = np.asarray(cohort.continues)
    if asked.shape != (len(works),) or asked.dtype != np.bool_:
        raise _fault("continues", f"{len(works)} truth values", asked)
    if cohort.start is not None and asked.any():
        raise ValueError(
            "a model to start from or clients that go on with the global one, not both"
        )
    before: list[Task | None] = []
    for client, work, goes_on in zip(cohort.clients.tolist(), works, asked.tolist(), strict=True):
        probe = trained.get(client) if goes_on else None
        if goes_on and probe is None:
            raise ValueError(
                f"continues for clients that have trained the model in a probe of this round, which"
                f" client {client} has not"
            )
        if probe is not None and (work.steps is not None or probe.work.steps is not None):
            # A probe of some steps may end within an epoch; what is left is no whole number then.
            raise ValueError("continues for trainings that count in epochs, not in steps")
        if probe is not None and work.epochs < probe.work.epochs:
            raise ValueError(
                f"epochs that include the {probe.work.epochs} of the probe that client {client}"
                f" goes on from, got {work.epochs}"
            )
        before.append(probe)
    return before


def _fault(name: str, wanted: str, values: NDArray[Any]) -> ValueError:
    return ValueError(f"{wanted} as {name}, got {values.tolist()}")
