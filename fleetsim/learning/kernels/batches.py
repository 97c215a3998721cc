"""Which client takes which batch when several train side by side.

Clients of unequal size share a stack by a *shrinking prefix*: they stand in descending order of
their number of steps, so at step t those that still train are the first K_t, a view of the stack,
and nobody is padded to the largest.

A batch that is smaller than the others of its step, the last of an epoch, is either filled up with
samples of weight 0, or computed apart, with batches of its own size. Only the latter is exact for
networks in which the samples of a batch see each other, as in BatchNorm.

Batches are those of `local.train`: one permutation per epoch, cut into pieces of the batch size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, IntArray, JobResult, Parameters
from fleetsim.learning.local.local_sgd import num_steps


class Length(NamedTuple):
    """How long one client trains."""

    num_samples: int
    epochs: int
    most_steps: int | None = None
    """It is stopped after so many steps, >= 1; None: never."""

    def num_steps(self, batch_size: int) -> int:
        """Steps that it takes."""
        return num_steps(self.num_samples, self.epochs, batch_size, self.most_steps)


class StackJob(NamedTuple):
    """One client's training."""

    base: Parameters
    """Weights to start from [P]."""
    rows: IntArray
    """The client's rows of the samples [n], n >= 1."""
    orders: IntArray
    """In which order each epoch goes through them, as of `local.orders` [epochs, n]."""
    most_steps: int | None = None
    """The training is stopped after so many steps, >= 1; None: never."""
    tells_epoch_losses: bool = False
    """Whether the mean loss of every epoch is wanted, too."""

    @property
    def epochs(self) -> int:
        """How often the client goes through its samples."""
        return len(self.orders)

    @property
    def length(self) -> Length:
        """How long the client trains."""
        return Length(len(self.rows), len(self.orders), self.most_steps)


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of one step that are computed together: start .. stop - 1."""

    start: int
    stop: int
    num_columns: int
    """Samples of its largest batch."""
    is_prefix: bool
    """Whether its clients are 0 .. stop - start - 1, all who train at this step."""


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """One line per (step, client), step after step."""

    parts: tuple[Part, ...]
    """In the order in which they have to be computed."""
    rows: IntArray
    """Samples of the line's batch [lines, batch]."""
    weights: NDArray[np.float64]
    """Of each sample in the mean over the batch: 1/b, or 0 for padding [lines, batch]."""
    client: IntArray
    """Whose line it is [lines]."""
    epoch: IntArray
    """In which of the client's epochs the line is, from 0 [lines]."""
    is_last_epoch: BoolArray
    """Whether the client's losses are taken from the line [lines]."""
    num_losses: IntArray
    """How many losses that makes for each client; its samples, unless it is stopped early."""

    def results(
        self,
        jobs: Sequence[StackJob],
        losses: NDArray[np.float64],
        vectors: Iterable[Parameters],
    ) -> list[JobResult]:
        """What the jobs yield.

        Args:
            jobs: those of `schedule`.
            losses: of every sample of every line [lines, batch]; those outside of a client's last
                epoch matter for who tells the losses of every epoch, those of padding to nobody.
            vectors: new weights of every client.
        """
        sizes = np.array([len(job.rows) for job in jobs])
        counted = np.flatnonzero(self.is_last_epoch)
        seen = np.where(self.weights[counted] > 0, losses[counted], 0.0)
        means, mean_squares = (
            np.bincount(self.client[counted], weights=values.sum(axis=1)) / self.num_losses
            for values in (seen, np.square(seen))
        )
        summaries = zip(
            sizes.tolist(), means.tolist(), np.sqrt(mean_squares).tolist(), vectors, strict=True
        )
        found = [JobResult(n, loss, rms, None, vector) for n, loss, rms, vector in summaries]
        if any(job.tells_epoch_losses for job in jobs):
            for place, means_of_one in enumerate(self._epoch_means(losses)):
                if jobs[place].tells_epoch_losses:
                    found[place] = found[place]._replace(epoch_losses=means_of_one)
        return found

    def wants_losses(self, jobs: Sequence[StackJob]) -> BoolArray:
        """From which lines `results` takes losses [lines]."""
        tells = np.array([job.tells_epoch_losses for job in jobs])
        return self.is_last_epoch | tells[self.client] if tells.any() else self.is_last_epoch

    def _epoch_means(self, losses: NDArray[np.float64]) -> list[tuple[float, ...]]:
        """Mean of every client's losses [lines, batch] in each of its epochs, as far as it got."""
        num_epochs = np.zeros(self.num_losses.size, dtype=np.int64)
        np.maximum.at(num_epochs, self.client, self.epoch + 1)
        ends = np.cumsum(num_epochs)
        place = (ends - num_epochs)[self.client] + self.epoch
        is_real = self.weights > 0
        sums = np.bincount(place, weights=np.where(is_real, losses, 0.0).sum(axis=1))
        means = sums / np.bincount(place, weights=is_real.sum(axis=1))
        return [tuple(part.tolist()) for part in np.split(means, ends[:-1])]


def longest_first(lengths: Sequence[Length], batch_size: int) -> list[int]:
    """Trainings by index in descending order of their steps, then of their samples.

    >>> longest_first([Length(10, 1), Length(25, 1), Length(30, 1)], 10)
    [2, 1, 0]
    """
    return sorted(
        range(len(lengths)),
        key=lambda i: (-lengths[i].num_steps(batch_size), -lengths[i].num_samples),
    )


def in_turn(jobs: Sequence[StackJob]) -> tuple[list[StackJob], IntArray]:
    """The same trainings, by tables of their own samples as their first epoch takes them.

    Args:
        jobs: who trains, at least one.

    Returns:
        (Jobs whose rows are places in the table that follows, line after line; one line for each
        job with its samples [K, n], n as many as the largest has: after its own, a smaller one has
        its last again, in no batch.)

    >>> base, orders = np.zeros(1, dtype=np.float32), np.array([[2, 0, 1], [0, 1, 2]])
    >>> jobs, own = in_turn([StackJob(base, np.array([7, 8, 9]), orders)])
    >>> own, jobs[0].rows, own.ravel()[jobs[0].rows.take(orders)]
    (array([[9, 7, 8]]), array([1, 2, 0]), array([[9, 7, 8],
           [7, 8, 9]]))
    """
    most = max(len(job.rows) for job in jobs)
    place = np.minimum(np.arange(most), [[len(job.rows) - 1] for job in jobs])
    own = [job.rows[job.orders[0][line]] for job, line in zip(jobs, place, strict=True)]
    turns = [start * most + np.argsort(job.orders[0]) for start, job in enumerate(jobs)]
    moved = [job._replace(rows=turn) for job, turn in zip(jobs, turns, strict=True)]
    return moved, np.stack(own)


def schedule(jobs: Sequence[StackJob], batch_size: int, *, is_padded: bool) -> Schedule:
    """Batches of all jobs.

    Args:
        jobs: who trains, at least one; longest first.
        batch_size: samples of a full batch.
        is_padded: True: every step is one part, small batches are filled up with the client's
            own last sample. False: batches of different size are in different parts.

    Raises:
        ValueError: a job takes more steps than the one before it.
    """
    plan = _plan(tuple(job.length for job in jobs), batch_size, is_padded=is_padded)
    shuffled = np.concatenate([job.rows.take(job.orders).ravel() for job in jobs])
    return Schedule(
        plan.parts,
        shuffled[plan.places],
        plan.weights,
        plan.client,
        plan.epoch,
        plan.is_last_epoch,
        plan.num_losses,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What a schedule is but for the samples; its arrays are never changed."""

    parts: tuple[Part, ...]
    places: IntArray
    """Where a line's samples stand among those of all jobs, epoch after epoch [lines, batch]."""
    weights: NDArray[np.float64]
    client: IntArray
    epoch: IntArray
    is_last_epoch: BoolArray
    num_losses: IntArray


# Clients of one size, trained round after round, have one plan.
@lru_cache(maxsize=2)
def _plan(lengths: tuple[Length, ...], batch_size: int, *, is_padded: bool) -> _Plan:
    """How trainings of these lengths share their steps.

    Raises:
        ValueError: a job takes more steps than the one before it.
    """
    size, epochs = np.array([length[:2] for length in lengths]).T
    per_epoch = -(-size // batch_size)
    steps = np.array([length.num_steps(batch_size) for length in lengths])
    if (np.diff(steps) > 0).any():
        raise ValueError(f"jobs of a stack take fewer and fewer steps, not {steps.tolist()}")
    # How many train at step t: those with more than t steps.
    num_training = np.searchsorted(-steps, -np.arange(steps[0]), side="left")
    step = np.repeat(np.arange(steps[0]), num_training)
    client = np.arange(len(step)) - np.repeat(np.cumsum(num_training) - num_training, num_training)
    epoch, batch = np.divmod(step, per_epoch[client])
    num_real = np.minimum(size[client] - batch * batch_size, batch_size)
    if not is_padded:
        order = np.lexsort((client, -num_real, step))
        step, client, epoch = step[order], client[order], epoch[order]
        batch, num_real = batch[order], num_real[order]
    column = np.arange(min(batch_size, size.max()))
    # Of batches with 0, 1, 2 ... real samples. Padding repeats the last of them, so that no other
    # client's data touch it.
    fill = np.arange(len(column) + 1)[:, None]
    within, weights = np.minimum(column, fill - 1), (column < fill) / np.maximum(fill, 1)
    begin = (np.cumsum(size * epochs) - size * epochs)[client]
    begin += epoch * size[client] + batch * batch_size
    is_last_epoch = epoch == ((steps - 1) // per_epoch)[client]
    num_losses = np.zeros_like(size)
    np.add.at(num_losses, client[is_last_epoch], num_real[is_last_epoch])
    return _Plan(
        parts=_parts(step, num_real, num_training, is_padded=is_padded),
        places=begin[:, None] + within[num_real],
        weights=weights[num_real],
        client=client,
        epoch=epoch,
        is_last_epoch=is_last_epoch,
        num_losses=num_losses,
    )


def _parts(
    step: IntArray, num_real: IntArray, num_training: IntArray, *, is_padded: bool
) -> tuple[Part, ...]:
    """Lines cut where the step changes, and unless they are padded, where their size does."""
    is_new = np.diff(step) != 0
    if not is_padded:
        is_new |= np.diff(num_real) != 0
    starts = np.concatenate([[0], np.flatnonzero(is_new) + 1])
    stops = np.append(starts[1:], len(step))
    columns = np.maximum.reduceat(num_real, starts)
    is_prefix = stops - starts == num_training[step[starts]]
    return tuple(map(Part, starts.tolist(), stops.tolist(), columns.tolist(), is_prefix.tolist()))
