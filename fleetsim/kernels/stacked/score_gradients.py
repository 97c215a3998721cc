"""Gradients of samples' log-likelihood, or of minus their loss, by the class scores.

`linear_chain` computes them between the product of its last layer and its backward pass. All arrays
are [classes, n], one column per sample, and results are written into existing memory. `c` is the
weight of a sample in the mean over its batch.

    cross-entropy:   gradient = c (onehot(y) - softmax(s))
    crammer-singer:  c at y and -c at the j of the largest margin, both 0 if that is y
    weston-watkins:  -c at each j != y of positive margin, c times their number at y
    one-vs-rest:     t c where the class's own margin is positive, t = 1 at y and -1 elsewhere

The losses are those of `local_sgd` and of `hinge_loss`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from fleetsim.learning.models.model_kind import Hinge

_log_softmax_backward = torch._log_softmax_backward_data


class ScoreBatch(NamedTuple):
    """Class scores of a step's samples, and memory for the gradients by them."""

    scores: Tensor
    """[classes, n]"""
    labels: Tensor
    """[1, n] int64"""
    weights: Tensor
    """Weight of each sample in its batch's mean [1, n], 0 for padding."""
    likelihoods: Tensor | None
    """If given, receives minus each sample's loss [1, n]."""
    scratch: tuple[Tensor, Tensor]
    """Memory for intermediate results, [classes, n] each."""
    out: Tensor
    """Receives the gradients [classes, n]."""


Writer = Callable[[ScoreBatch], None]
"""Writer of gradients by the scores."""


def writer_of(hinge: Hinge | None) -> Writer:
    """Return the writer of the gradients of a hinge loss; None: of the cross-entropy."""
    return _softmax if hinge is None else _WRITERS[hinge]


def _softmax(batch: ScoreBatch) -> None:
    scores, labels, weights, likelihoods, (logs, targets), out = batch
    torch.log_softmax(scores, 0, out=logs)
    if likelihoods is not None:
        torch.gather(logs, 0, labels, out=likelihoods)
    targets.zero_().scatter_(0, labels, weights)
    # targets - exp(logs) * (sum of the targets over the classes), which is c y - c p.
    _log_softmax_backward(targets, logs, 0, logs.dtype, out=out)


def _crammer_singer(batch: ScoreBatch) -> None:
    scores, labels, weights, likelihoods, (margins, _), out = batch
    right_scores = scores.gather(0, labels)
    torch.add(scores, 1, out=margins).scatter_(0, labels, right_scores)
    largest, where = margins.max(dim=0, keepdim=True)
    if likelihoods is not None:
        torch.sub(right_scores, largest, out=likelihoods)
    out.zero_().scatter_(0, where, -weights)
    # c at y, or 0 if the largest margin is that of y.
    out.scatter_(0, labels, torch.where(where == labels, 0.0, weights))


def _weston_watkins(batch: ScoreBatch) -> None:
    scores, labels, weights, likelihoods, (margins, _), out = batch
    torch.sub(scores, scores.gather(0, labels) - 1, out=margins).relu_().scatter_(0, labels, 0.0)
    if likelihoods is not None:
        likelihoods.copy_(margins.sum(dim=0, keepdim=True).neg_())
    torch.mul(torch.gt(margins, 0), -weights, out=out)
    out.scatter_(0, labels, -out.sum(dim=0, keepdim=True))


def _one_vs_rest(batch: ScoreBatch) -> None:
    scores, labels, weights, likelihoods, (signs, margins), out = batch
    signs.fill_(-1.0).scatter_(0, labels, 1.0)
    torch.mul(scores, signs, out=margins).neg_().add_(1).relu_()
    if likelihoods is not None:
        likelihoods.copy_(margins.sum(dim=0, keepdim=True).neg_())
    torch.mul(torch.gt(margins, 0), signs, out=out).mul_(weights)


_WRITERS: Mapping[Hinge, Writer] = {
    "crammer-singer": _crammer_singer,
    "weston-watkins": _weston_watkins,
    "one-vs-rest": _one_vs_rest,
}
