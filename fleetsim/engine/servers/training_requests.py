"""Training requests of a selector's answer, checked, and FedProx's partial training."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim import rng
from fleetsim.contracts import Cohort, FloatArray, IntArray, Work
from fleetsim.engine.tasks.task import Task, TrainingRequest
from fleetsim.quoting import type_name

_MAX_SHOWN = 500
_MAX_READ = 8 * _MAX_SHOWN
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_NUMPY_NUMBER = re.compile(r"np\.[a-z]+[0-9]+\(([^()]*)\)")


def requests_of(cohort: Cohort, usual: Work, trained: Mapping[int, Task]) -> list[TrainingRequest]:
    """Return the requests of a checked answer; `trained` are probes of this round that trained."""
    clients: list[int] = cohort.clients.tolist()
    size = len(clients)
    for name in ("asks_epoch_losses", "are_shares"):
        if not isinstance(getattr(cohort, name), bool | np.bool_):
            raise _fault(name, "True or False", getattr(cohort, name))
    if cohort.asks_epoch_losses:
        usual = replace(usual, tells_epoch_losses=True)
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
    before = _continued_probes(cohort, works, trained)
    return [
        TrainingRequest(client, work, upload, weight, cohort.are_shares, probe)
        for client, work, upload, weight, probe in zip(
            clients, works, uploads, weights, before, strict=True
        )
    ]


def in_part(
    requests: list[TrainingRequest], usual: Work, *, chance: float, address: tuple[int, int]
) -> list[TrainingRequest]:
    """Return the requests where some clients train a part only: 1 to E - 1 epochs (or steps).

    Each client does with probability `chance`, by draws at the address of seed and number of the
    selection. One that was asked for another amount than usual, or continues a probe, trains all.

    Source: Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, section 5.2,
    and litian96/FedProx@d2a4501, which draws a fixed share of every cohort instead.
    """
    if chance == 0.0:
        return requests
    seed, number = address

    def part(request: TrainingRequest) -> TrainingRequest:
        work = request.work
        is_usual = (work.epochs, work.steps) == (usual.epochs, usual.steps)
        draws = rng.stream(seed, "partial training", number, request.client)
        if not is_usual or request.continues is not None or draws.random() >= chance:
            return request
        count = int(draws.integers(1, usual.steps or usual.epochs))
        less = replace(work, epochs=count) if usual.steps is None else replace(work, steps=count)
        return request._replace(work=less)

    return [part(request) for request in requests]


def _counts(name: str, values: IntArray, size: int) -> list[int]:
    counts = array_of(values)
    if counts.shape != (size,) or counts.dtype.kind not in "iu" or (counts < 1).any():
        raise _fault(name, f"{size} whole numbers of at least 1", values)
    asked: list[int] = counts.tolist()
    return asked


def _numbers(
    name: str, values: FloatArray | None, default: float, size: int, *, most: float | None = None
) -> list[float]:
    if values is None:
        return [default] * size
    within = "finite numbers above 0" if most is None else f"numbers in (0, {most:g}]"
    array = array_of(values)
    if array.shape != (size,) or array.dtype.kind not in "iuf":
        raise _fault(name, f"{size} {within}", values)
    array = array.astype(np.float64)
    is_right = (array > 0.0) & (array < np.inf if most is None else array <= most)
    if not is_right.all():
        raise _fault(name, f"{size} {within}", values)
    numbers: list[float] = array.tolist()
    return numbers


def _continued_probes(
    cohort: Cohort, works: list[Work], trained: Mapping[int, Task]
) -> list[Task | None]:
    if cohort.continues is None:
        return [None] * len(works)
    asked = array_of(cohort.continues)
    if asked.shape != (len(works),) or asked.dtype != np.bool_:
        raise _fault("continues", f"{len(works)} truth values", cohort.continues)
    if cohort.start is not None and asked.any():
        raise ValueError(
            "a model to start from or clients that continue with the global one, not both"
        )
    before: list[Task | None] = []
    for client, work, continues in zip(cohort.clients.tolist(), works, asked.tolist(), strict=True):
        probe = trained.get(client) if continues else None
        if continues and probe is None:
            raise ValueError(
                f"continues for clients that have trained the model in a probe of this round, which"
                f" client {client} has not"
            )
        if probe is not None and (work.steps is not None or probe.work.steps is not None):
            # A probe of some steps may end within an epoch; the rest is no whole number of epochs.
            raise ValueError("continues for trainings that count in epochs, not in steps")
        if probe is not None and work.epochs < probe.work.epochs:
            raise ValueError(
                f"epochs that include the {probe.work.epochs} of the probe that client {client}"
                f" continues, got {work.epochs}"
            )
        before.append(probe)
    return before


def _fault(name: str, required: str, values: object) -> ValueError:
    return ValueError(f"{required} as {name}, got {text_of(values)}")


def array_of(values: object) -> NDArray[Any]:
    """Return an array that a selector gives in any form; one of no numbers if it is none."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        # Lists of different lengths in one list, or a tensor that numpy must not read.
        return np.empty((0, 0), dtype=np.object_)


def text_of(answer: object) -> str:
    """Return an answer of a selector on one line, shortened, without addresses in memory."""
    if isinstance(answer, np.ndarray) and answer.size > _MAX_SHOWN:
        return f"an array of {answer.dtype} of shape {answer.shape}"
    try:
        text = repr(answer.tolist() if isinstance(answer, np.ndarray) else answer)
    except Exception:  # its own method may fail
        return f"an object of {type_name(answer)}"
    text = " ".join(_ADDRESS.sub("", _NUMPY_NUMBER.sub(r"\1", text[:_MAX_READ])).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
