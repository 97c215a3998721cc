"""Local SGD of many clients at once: `local_sgd.train` for stacks of models, see `batches`.

Every client uses the batches that `local_sgd.train` draws from the same stream, so in exact
arithmetic the results are equal. In float32 they differ by rounding, which may depend on the other
clients of the stack. Stacks follow from the list of jobs alone, never from time, cores or memory.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor

from fleetsim.contracts import JobResult
from fleetsim.kernels.batches import Length, StackJob, in_turn, schedule
from fleetsim.kernels.cpu.gemm import Widths
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.kernels.device_samples import Samples, stack_samples
from fleetsim.kernels.stacked.dual_chain import DualChainStack, dual_form_is_faster
from fleetsim.kernels.stacked.linear_chain import ChainStack, num_parameters
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.model_kind import Hinge

STACK_BYTE = 6_000_000
"""Bytes of weights and activations of one stack. Larger stacks start fewer operations; more stacks
keep more processes busy. See `stacks`."""
STACK_CLIENTS = 64
"""Largest number of clients of one stack, for models so small that `STACK_BYTE` is no limit."""
_FLOAT_BYTE = 4


def stacks(widths: Widths, lengths: Sequence[Length], batch_size: int) -> list[list[int]]:
    """Return stacks of trainings, by index, of about equal work, the longest trainings first.

    `STACK_BYTE` and `STACK_CLIENTS` give the usual number of clients of a stack, and thereby the
    number of stacks. It is rounded up to an even number, so that two processes get equal shares.
    Equal work can mean many small clients: a stack of over twice the usual number is divided.
    """
    batch = min(batch_size, max(length.num_samples for length in lengths))
    client_byte = _FLOAT_BYTE * (num_parameters(widths) + batch * sum(widths))
    usual = max(1, min(STACK_CLIENTS, STACK_BYTE // client_byte))
    return [list(stack) for stack in _cut(tuple(lengths), batch_size, usual)]


# Rounds with clients of one size share the result.
@lru_cache(maxsize=8)
def _cut(lengths: tuple[Length, ...], batch_size: int, usual: int) -> tuple[tuple[int, ...], ...]:
    """Return `stacks` of about `usual` clients each."""
    sizes = np.array([length.num_samples for length in lengths])
    steps = np.array([length.num_steps(batch_size) for length in lengths])
    num_stacks = -(-len(lengths) // usual)
    if num_stacks > 1:
        num_stacks += num_stacks % 2
    order = np.lexsort((-sizes, -steps))
    work = steps[order]
    done = np.cumsum(work)
    # A job belongs to the stack in whose share of the work its middle falls.
    stack = (2 * done - work) * num_stacks // (2 * done[-1])
    cut = np.split(order, np.flatnonzero(np.diff(stack)) + 1)
    pieces = (np.array_split(block, -(-len(block) // (2 * usual))) for block in cut)
    return tuple(tuple(piece.tolist()) for some in pieces for piece in some)


def train_stack(
    widths: Widths,
    jobs: Sequence[StackJob],
    samples: Samples,
    labels: Tensor,
    settings: StepSettings,
    *,
    hinge: Hinge | None,
    space: Workspace,
) -> list[JobResult]:
    """Train the jobs of one stack from their bases, in the order of `stacks`.

    The number type is that of `samples`: float32, or float64 to compare with other trainers. The
    memory `space` is for one stack at a time.
    """
    lengths = [job.length for job in jobs]
    batch = min(settings.batch_size, max(length.num_samples for length in lengths))
    build: Callable[..., ChainStack | DualChainStack]
    if samples.like.is_cpu and dual_form_is_faster(widths, lengths, settings):
        jobs, own = in_turn(jobs)
        taken = torch.from_numpy(own)
        build = partial(DualChainStack, widths, samples=samples, own=taken, space=space)
        labels = labels.index_select(0, taken.flatten())
    else:
        jobs, inputs, labels = stack_samples(jobs, samples, labels, space)
        build = partial(ChainStack, widths, samples=inputs.flatten(1))
    plan = schedule(jobs, settings.batch_size, is_padded=True)
    starts = [block.start for block in plan.blocks]
    wants_losses = np.logical_or.reduceat(plan.wants_losses(jobs), starts).tolist()
    with torch.inference_mode():
        bases = [job.base for job in jobs]
        stack = build(bases=bases, settings=settings, batch=batch, hinge=hinge)
        rows = torch.from_numpy(plan.rows).to(samples.like.device).view(-1)
        weights = torch.from_numpy(plan.weights).to(samples.like).view(1, -1)
        likelihoods = torch.zeros_like(weights)
        sizes = [batch * (block.stop - block.start) for block in plan.blocks]
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
