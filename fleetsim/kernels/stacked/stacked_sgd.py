"""Kernel that trains many small networks at once: `local_sgd.train` for stacks, see `batches`.

Every client uses the batches that `local_sgd.train` draws from the same stream, so in exact
arithmetic the results are equal. In float32 they differ by rounding, which may depend on the other
clients of the stack. Stacks follow from the list of jobs alone, never from time, cores or memory.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from fleetsim.contracts import Job, JobResult
from fleetsim.counts import Batching
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.batches import Length, in_turn, largest_batch, schedule
from fleetsim.kernels.cpu.gemm import Widths, library, prefers_onednn
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.kernels.device_samples import stack_samples
from fleetsim.kernels.stacked.dual_chain import DualChainStack, dual_form_is_faster
from fleetsim.kernels.stacked.linear_chain import ChainStack, num_parameters, widths_of
from fleetsim.learning.models.small import LinearSvm

STACK_BYTE = 6_000_000
"""Bytes of weights and activations of one stack. Larger stacks start fewer operations; more stacks
keep more processes busy. See `stacks`."""
STACK_CLIENTS = 64
"""Largest number of clients of one stack, for models so small that `STACK_BYTE` is no limit."""
_FLOAT_BYTE = 4


def stacks(widths: Widths, lengths: Sequence[Length], batching: Batching) -> list[list[int]]:
    """Return stacks of trainings, by index, of about equal work, the longest trainings first.

    `STACK_BYTE` and `STACK_CLIENTS` give the usual number of clients of a stack, and thereby the
    number of stacks. It is rounded up to an even number, so that two processes get equal shares.
    Equal work can mean many small clients: a stack of over twice the usual number is divided.
    """
    batch = largest_batch(lengths, batching)
    client_byte = _FLOAT_BYTE * (num_parameters(widths) + batch * sum(widths))
    usual = max(1, min(STACK_CLIENTS, STACK_BYTE // client_byte))
    return [list(stack) for stack in _cut(tuple(lengths), batching, usual)]


# Rounds with clients of one size share the result.
@lru_cache(maxsize=8)
def _cut(
    lengths: tuple[Length, ...], batching: Batching, usual: int
) -> tuple[tuple[int, ...], ...]:
    sizes = np.array([length.num_samples for length in lengths])
    steps = np.array([length.num_steps(batching) for length in lengths])
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


class StackedKernel(Kernel):
    """Kernel that trains clients in stacks, by hand-written steps, for chains of linear layers.

    Gradients and evaluations are computed one at a time.
    """

    computes_together = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        widths = widths_of(self.module)
        if widths is None:
            raise ValueError("only chains of linear layers with ReLU can be stacked")
        self._local_settings.plain_sgd()
        self._widths = widths
        self._hinge = self.module.hinge if isinstance(self.module, LinearSvm) else None
        most = self._local_settings.batching.most
        self._uses_onednn = self.is_on_cpu and prefers_onednn(widths, most)
        self._space = Workspace()

    def forms(self) -> dict[str, str]:
        """Return the library of the stacks' products; other forms follow from the platform."""
        return {"products": library(is_onednn=self._uses_onednn)} if self.is_on_cpu else {}

    def _stacks(self, jobs: Sequence[Job]) -> list[list[int]]:
        return stacks(self._widths, self._lengths(jobs), self._local_settings.batching)

    def _train(self, jobs: Sequence[Job]) -> list[JobResult]:
        settings, samples, labels = self._settings_of(jobs[0]), self._all_samples, self._labels
        lengths = self._lengths(jobs)
        stack_jobs = self._stack_jobs(jobs)
        batch = largest_batch(lengths, settings.batching)
        build: Callable[..., ChainStack | DualChainStack]
        if samples.like.is_cpu and dual_form_is_faster(self._widths, lengths, settings):
            stack_jobs, table = in_turn(stack_jobs)
            taken = torch.from_numpy(table)
            build = partial(DualChainStack, samples=samples, client_rows=taken, space=self._space)
            labels = labels.index_select(0, taken.flatten())
        else:
            stack_jobs, inputs, labels = stack_samples(stack_jobs, samples, labels, self._space)
            build = partial(ChainStack, samples=inputs.flatten(1))
        plan = schedule(stack_jobs, settings.batching, is_padded=True)
        starts = [block.start for block in plan.blocks]
        wants_losses = np.logical_or.reduceat(plan.wants_losses(stack_jobs), starts).tolist()
        with torch.inference_mode():
            bases = [job.base for job in jobs]
            stack = build(self._widths, bases, settings=settings, batch=batch, hinge=self._hinge)
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
        return plan.results(stack_jobs, losses, vectors)
