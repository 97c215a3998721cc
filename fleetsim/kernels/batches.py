"""Schedule of the batches of several clients that train in one stack.

Clients of unequal size share a stack as a *shrinking prefix*: sorted by their number of steps,
descending, the clients that still train at step t are the first K_t, a view of the stack.

The last batch of an epoch may differ in size from the other batches of its step. Smaller ones are
either padded with samples of weight 0, or computed separately. Only the latter is exact for
networks in which the samples of a batch influence each other, as in BatchNorm.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, IntArray, JobResult, Parameters
from fleetsim.counts import Batching
from fleetsim.learning.local.local_sgd import num_steps


class Length(NamedTuple):
    """Length of one client's training."""

    num_samples: int
    epochs: int
    most_steps: int | None = None
    """Number of steps, >= 1, after which the training stops; None: all epochs."""

    def num_steps(self, batching: Batching) -> int:
        """Return the number of SGD steps."""
        return num_steps(self.num_samples, self.epochs, batching, self.most_steps)


class StackJob(NamedTuple):
    """Training of one client in a stack."""

    base: Parameters
    """Initial weights [P]."""
    rows: IntArray
    """Rows of the client's samples [n], n >= 1."""
    orders: IntArray
    """Order of the samples in each epoch, of `local_sgd.orders` [epochs, n]."""
    most_steps: int | None = None
    """Number of steps, >= 1, after which the training stops; None: all epochs."""
    tells_epoch_losses: bool = False
    """If true, the result holds the mean loss of every epoch."""

    @property
    def length(self) -> Length:
        """Length of the training."""
        return Length(len(self.rows), len(self.orders), self.most_steps)


@dataclass(frozen=True, slots=True)
class StepBlock:
    """Lines start .. stop - 1 of one step, which are computed together."""

    start: int
    stop: int
    num_columns: int
    """Samples of the largest batch of the block."""
    is_prefix: bool
    """True if the clients are 0 .. stop - start - 1, all that train at this step."""
    step: int
    """Number of the step in the clients' tasks, 1 for the first."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchSchedule:
    """Batches of all clients of a stack, one line per (step, client), sorted by step."""

    blocks: tuple[StepBlock, ...]
    """Blocks of lines in the order of their computation."""
    rows: IntArray
    """Samples of each line's batch [lines, batch]."""
    weights: NDArray[np.float64]
    """Weight of each sample in the mean over its batch: 1/b, or 0 for padding [lines, batch]."""
    client: IntArray
    """Client of each line [lines]."""
    epoch: IntArray
    """Epoch of each line, from 0 [lines]."""
    is_last_epoch: BoolArray
    """True for lines of a client's last epoch, whose losses are reported [lines]."""
    num_losses: IntArray
    """Number of reported losses by client: its samples, or fewer if the training stops early or
    drops some."""

    def results(
        self, jobs: Sequence[StackJob], losses: NDArray[np.float64], vectors: Iterable[Parameters]
    ) -> list[JobResult]:
        """Return the results of the jobs, with their new `vectors`.

        Of the losses [lines, batch], those before a client's last epoch count only for clients that
        report the loss of every epoch; padding never counts.
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
        result = [JobResult(n, loss, rms, None, vector) for n, loss, rms, vector in summaries]
        if any(job.tells_epoch_losses for job in jobs):
            for place, means_of_one in enumerate(self._epoch_means(losses)):
                if jobs[place].tells_epoch_losses:
                    result[place] = result[place]._replace(epoch_losses=means_of_one)
        return result

    def wants_losses(self, jobs: Sequence[StackJob]) -> BoolArray:
        """Return true for the lines whose losses `results` reads [lines]."""
        tells = np.array([job.tells_epoch_losses for job in jobs])
        return self.is_last_epoch | tells[self.client] if tells.any() else self.is_last_epoch

    def _epoch_means(self, losses: NDArray[np.float64]) -> list[tuple[float, ...]]:
        """Return every client's mean losses by epoch, from losses [lines, batch]."""
        num_epochs = np.zeros(self.num_losses.size, dtype=np.int64)
        np.maximum.at(num_epochs, self.client, self.epoch + 1)
        ends = np.cumsum(num_epochs)
        place = (ends - num_epochs)[self.client] + self.epoch
        is_real = self.weights > 0
        sums = np.bincount(place, weights=np.where(is_real, losses, 0.0).sum(axis=1))
        means = sums / np.bincount(place, weights=is_real.sum(axis=1))
        return [tuple(block.tolist()) for block in np.split(means, ends[:-1])]


def largest_batch(lengths: Sequence[Length], batching: Batching) -> int:
    """Return the samples of the largest batch of some trainings."""
    return max(batching.largest(length.num_samples) for length in lengths)


def longest_first(lengths: Sequence[Length], batching: Batching) -> list[int]:
    """Return trainings by index in descending order of their steps, then of their samples."""
    return sorted(
        range(len(lengths)),
        key=lambda i: (-lengths[i].num_steps(batching), -lengths[i].num_samples),
    )


def in_turn(jobs: Sequence[StackJob]) -> tuple[list[StackJob], IntArray]:
    """Return the same trainings by a table of their samples in the order of their first epoch.

    The rows of the jobs are positions in the flattened table. It has one line per job [K, n], n of
    the largest job. Shorter lines repeat their last sample, which is in no batch.
    """
    most = max(len(job.rows) for job in jobs)
    place = np.minimum(np.arange(most), [[len(job.rows) - 1] for job in jobs])
    table = [job.rows[job.orders[0][line]] for job, line in zip(jobs, place, strict=True)]
    turns = [start * most + np.argsort(job.orders[0]) for start, job in enumerate(jobs)]
    moved = [job._replace(rows=turn) for job, turn in zip(jobs, turns, strict=True)]
    return moved, np.stack(table)


def schedule(jobs: Sequence[StackJob], batching: Batching, *, is_padded: bool) -> BatchSchedule:
    """Return the batches of all jobs, which are sorted longest first.

    If `is_padded`, every step is one block, and small batches are padded with the client's last
    sample; else batches of different sizes are in different blocks.
    """
    plan = _plan(tuple(job.length for job in jobs), batching, is_padded=is_padded)
    shuffled = np.concatenate([job.rows.take(job.orders).ravel() for job in jobs])
    return replace(plan, rows=shuffled[plan.rows])


# Rounds with clients of one size share a plan.
@lru_cache(maxsize=2)
def _plan(lengths: tuple[Length, ...], batching: Batching, *, is_padded: bool) -> BatchSchedule:
    """Return the schedule of trainings of these lengths; it is never changed.

    Its rows are positions among the samples of all jobs and epochs.
    """
    size, epochs = np.array([length[:2] for length in lengths]).T
    per_epoch = batching.num_batches(size)
    steps = np.array([length.num_steps(batching) for length in lengths])
    # At step t train the clients with more than t steps.
    num_training = np.searchsorted(-steps, -np.arange(steps[0]), side="left")
    step = np.repeat(np.arange(steps[0]), num_training)
    client = np.arange(len(step)) - np.repeat(np.cumsum(num_training) - num_training, num_training)
    epoch, batch = np.divmod(step, per_epoch[client])
    num_real = batching.size_of(batch, size[client])
    if not is_padded:
        order = np.lexsort((client, -num_real, step))
        step, client, epoch = step[order], client[order], epoch[order]
        batch, num_real = batch[order], num_real[order]
    column = np.arange(largest_batch(lengths, batching))
    # By the number 0, 1, 2 ... of real samples. Padding repeats the last of them, so that a line
    # holds the data of its client alone.
    fill = np.arange(len(column) + 1)[:, None]
    within, weights = np.minimum(column, fill - 1), (column < fill) / np.maximum(fill, 1)
    begin = (np.cumsum(size * epochs) - size * epochs)[client]
    begin += epoch * size[client] + batch * batching.size
    is_last_epoch = epoch == ((steps - 1) // per_epoch)[client]
    num_losses = np.zeros_like(size)
    np.add.at(num_losses, client[is_last_epoch], num_real[is_last_epoch])
    return BatchSchedule(
        blocks=_blocks(step, num_real, num_training, is_padded=is_padded),
        rows=begin[:, None] + within[num_real],
        weights=weights[num_real],
        client=client,
        epoch=epoch,
        is_last_epoch=is_last_epoch,
        num_losses=num_losses,
    )


def _blocks(
    step: IntArray, num_real: IntArray, num_training: IntArray, *, is_padded: bool
) -> tuple[StepBlock, ...]:
    """Split the lines where the step changes and, without padding, where the size changes."""
    is_new = np.diff(step) != 0
    if not is_padded:
        is_new |= np.diff(num_real) != 0
    starts = np.concatenate([[0], np.flatnonzero(is_new) + 1])
    stops = np.append(starts[1:], len(step))
    columns = np.maximum.reduceat(num_real, starts)
    is_prefix = stops - starts == num_training[step[starts]]
    parts = (starts, stops, columns, is_prefix, step[starts] + 1)
    return tuple(map(StepBlock, *(part.tolist() for part in parts)))
