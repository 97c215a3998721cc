"""Trainings for stacks, in the order that a stream draws."""

from __future__ import annotations

import numpy as np

from fleetsim.contracts import IntArray, Parameters
from fleetsim.learning.kernels.batches import StackJob
from fleetsim.learning.local import local_sgd


def stack_job(
    base: Parameters,
    rows: IntArray,
    epochs: int,
    stream: np.random.Generator,
    most_steps: int | None = None,
    *,
    tells_epoch_losses: bool = False,
) -> StackJob:
    """The training that `local_sgd.train` makes of the same stream."""
    orders = local_sgd.orders(stream, epochs, len(rows))
    return StackJob(base, rows, orders, most_steps, tells_epoch_losses)
