"""Local SGD of many clients at once: `local.train` for stacks of models, see `batches`.

Every client sees the very batches that `local.train` draws from the same stream, so in exact
arithmetic the results are equal. In float32 they differ by rounding, and the rounding of one
client may depend on who shares its stack. Stacks are cut by the list of jobs alone, not by time or
cores, so equal lists give equal bytes, also if every stack is computed by another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor

from fleetsim.contracts import JobResult
from fleetsim.learning.kernels.batches import Length, StackJob, in_turn, schedule
from fleetsim.learning.kernels.cpu.gemm import Widths
from fleetsim.learning.kernels.cpu.workspace import Workspace
from fleetsim.learning.kernels.device_samples import Samples, side_by_side
from fleetsim.learning.kernels.stacked.dual_chain import DualChainStack, dual_pays
from fleetsim.learning.kernels.stacked.linear_chain import ChainStack, num_parameters
from fleetsim.learning.kernels.stacked.single_layer import SingleLayerStack, single_layer_pays
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.settings import Hinge

STACK_BYTE = 6_000_000
"""Weights and activations of one stack. The larger stacks are, the less it costs to start
operations; the more there are, the more processes they feed. See `stacks`."""
STACK_CLIENTS = 64
"""Clients of one stack, where models are so small that the bytes do not bound it."""
_FLOAT_BYTE = 4

_Stack = ChainStack | DualChainStack | SingleLayerStack


def train_together(
    widths: Widths,
    jobs: Sequence[StackJob],
    samples: Samples,
    labels: Tensor,
    settings: LocalSettings,
    *,
    hinge: Hinge | None = None,
) -> list[JobResult]:
    """Local epochs of SGD of many clients from their bases, each as `local.train` does it.

    The arithmetic is that of `samples`: float32, or float64 to compare with other trainers.

    Args:
        widths: shape of the network, see `linear_chain`.
        jobs: who trains, from which model, how long.
        samples: of all clients.
        labels: their classes [n] int64.
        settings: batch size, optimizer and proximal term of all clients.
        hinge: the loss; None: cross-entropy.

    Returns:
        For each job its new weights, mean and root mean square of its losses in the last epoch,
        its number of samples, and what each epoch lost if it tells that.
    """
    results: dict[int, JobResult] = {}
    for members in stacks(widths, [job.length for job in jobs], settings.batch_size):
        own = [jobs[i] for i in members]
        trained = train_stack(widths, own, samples, labels, settings, hinge=hinge)
        results |= zip(members, trained, strict=True)
    return [results[i] for i in range(len(jobs))]


def stacks(widths: Widths, lengths: Sequence[Length], batch_size: int) -> list[list[int]]:
    """Trainings by index, cut into stacks of about equal work, the longest-training first.

    There are as many stacks as hold their usual number of clients each, by `STACK_BYTE` and
    `STACK_CLIENTS`, rounded up to an even number so that two processes get equal shares. Where
    clients differ much, equal work can be many small ones: a stack of over twice the usual number
    is cut again.

    Args:
        widths: shape of the network.
        lengths: of the trainings.
        batch_size: samples of a full batch.
    """
    if not lengths:
        return []
    batch = min(batch_size, max(length.num_samples for length in lengths))
    client_byte = _FLOAT_BYTE * (num_parameters(widths) + batch * sum(widths))
    usual = max(1, min(STACK_CLIENTS, STACK_BYTE // client_byte))
    return [list(stack) for stack in _cut(tuple(lengths), batch_size, usual)]


# The same numbers of clients of one size are cut again and again.
@lru_cache(maxsize=8)
def _cut(lengths: tuple[Length, ...], batch_size: int, usual: int) -> tuple[tuple[int, ...], ...]:
    """`stacks` of `usual` clients each."""
    sizes = np.array([length.num_samples for length in lengths])
    steps = np.array([length.num_steps(batch_size) for length in lengths])
    num_stacks = -(-len(lengths) // usual)
    if num_stacks > 1:
        num_stacks += num_stacks % 2
    order = np.lexsort((-sizes, -steps))
    work = steps[order]
    done = np.cumsum(work)
    # The stack into whose share of the work a job's middle falls.
    stack = (2 * done - work) * num_stacks // (2 * done[-1])
    cut = np.split(order, np.flatnonzero(np.diff(stack)) + 1)
    pieces = (np.array_split(part, -(-len(part) // (2 * usual))) for part in cut)
    return tuple(tuple(piece.tolist()) for some in pieces for piece in some)


def train_stack(
    widths: Widths,
    jobs: Sequence[StackJob],
    samples: Samples,
    labels: Tensor,
    settings: LocalSettings,
    *,
    hinge: Hinge | None = None,
    space: Workspace | None = None,
) -> list[JobResult]:
    """The same as `train_together` for the jobs of one stack, in the order of `stacks`.

    Args:
        widths: as of `train_together`, as are all others.
        jobs: see there.
        samples: see there.
        labels: see there.
        settings: see there.
        hinge: see there.
        space: memory for one stack after the other; None: its own.

    Raises:
        ValueError: a job takes more steps than the one before it.
    """
    if space is None:
        space = Workspace()
    lengths = [job.length for job in jobs]
    batch = min(settings.batch_size, max(length.num_samples for length in lengths))
    build: Callable[..., _Stack]
    if samples.like.is_cpu and dual_pays(widths, lengths, settings):
        jobs, own = in_turn(jobs)
        taken = torch.from_numpy(own)
        build = partial(DualChainStack, widths, samples=samples, own=taken, space=space)
        labels = labels.index_select(0, taken.flatten())
    else:
        is_single = len(widths) == 2 and single_layer_pays(*widths, batch)
        jobs, inputs, labels = side_by_side(jobs, samples, labels, space)
        kind = SingleLayerStack if is_single else ChainStack
        build = partial(kind, widths, samples=inputs.flatten(1))
    plan = schedule(jobs, settings.batch_size, is_padded=True)
    starts = [part.start for part in plan.parts]
    wants_losses = np.logical_or.reduceat(plan.wants_losses(jobs), starts).tolist()
    with torch.inference_mode():
        bases = [job.base for job in jobs]
        stack = build(bases=bases, settings=settings, batch=batch, hinge=hinge)
        rows = torch.from_numpy(plan.rows).to(samples.like.device).view(-1)
        weights = torch.from_numpy(plan.weights).to(samples.like).view(1, -1)
        likelihoods = torch.zeros_like(weights)
        sizes = [batch * (part.stop - part.start) for part in plan.parts]
        of_samples = (labels.index_select(0, rows).view(1, -1), weights, likelihoods)
        steps = zip(
            rows.split_with_sizes(sizes),
            *(each.split_with_sizes(sizes, dim=1) for each in of_samples),
            strict=True,
        )
        for wants_loss, step in zip(wants_losses, steps, strict=True):
            stack.step(*step if wants_loss else step[:3])
        vectors = stack.vectors()
        losses = likelihoods.neg_().double().view(plan.rows.shape).cpu().numpy()
    return plan.results(jobs, losses, vectors)
