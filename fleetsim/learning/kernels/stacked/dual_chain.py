"""Many copies of one small network side by side, the first layer of each in its dual form.

What `linear_chain` does, for clients who go through few samples often. Steps of SGD move the
weights of a linear layer only along the inputs that it has seen. So with the n samples of a client
as rows of X, the bias as the weight of one more feature that is 1, and V = [W, b]^T,

    V_t = c_t V_0 + X^T A_t,

and instead of V, the step keeps one row of A for every sample [n, units], and the scalar c: on a
batch B with slopes s,

    z[B] = c (X V_0)[B] + (X X^T)[B] A,    A <- (1 - r (d + m)) A,    A[B] <- A[B] + r s,
    c <- c - r (d c + m (c - 1)),

with the learning rate r, weight decay d and the proximal term's m. Products with A take n terms
where those with V take as many as there are features, and the gradient of V is never formed; X V_0,
X X^T and V_t itself are large products, computed once. In exact arithmetic nothing else changes.

Source of the form, without decay and pull: Irie, Csordas, Schmidhuber, "The Dual Form of Neural
Networks Revisited", ICML 2022, PMLR 162, pages 9639-9659.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleetsim.contracts import Parameters
from fleetsim.learning.kernels.batches import Length
from fleetsim.learning.kernels.cpu.gemm import Widths, onednn, prefers_onednn_for_long
from fleetsim.learning.kernels.cpu.workspace import Workspace
from fleetsim.learning.kernels.device_samples import Samples
from fleetsim.learning.kernels.initial_models import on_device
from fleetsim.learning.kernels.stacked.client_products import PANEL, products_of
from fleetsim.learning.kernels.stacked.linear_chain import ChainStack, relu_backward, view
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.settings import Hinge

_WORTH = 0.8
"""Arithmetic of the dual form by that of the plain one up to which it is faster. Measured for first
layers of 784 x 50 to 3072 x 200, 60 to 900 samples, 2 to 10 epochs in batches of 10 to 50, on one
core of an AMD EPYC (Zen 4): whole stacks took 0.24 to 0.93 times as long up to there, and up to
1.3 times beyond."""
_WORTH_WEIGHTS = 20_000
"""Weights of a first layer from which on its arithmetic counts, not the number of operations."""
_MOST_GRAM_BYTE = 32_000_000
"""Of the products X X^T of one stack, in float32. Half of that was measured; where they are far
larger than caches, every step would read its rows of them from memory."""
_FLOAT_BYTE = 4


def dual_pays(widths: Widths, lengths: Sequence[Length], settings: LocalSettings) -> bool:
    """Whether a stack of such clients trains faster with its first layer in the dual form.

    A rule on sizes alone. There has to be a layer above, and no momentum, which would take as many
    passes over A as over V.

    Args:
        widths: shape of the network.
        lengths: of the trainings of one stack.
        settings: of all clients.

    >>> sgd = {"optimizer": {"learning_rate": 0.1}, "batch_size": 50, "epochs": 5}
    >>> chosen = LocalSettings.model_validate(sgd)
    >>> dual_pays((784, 200, 200, 10), [Length(600, 5)], chosen)
    True
    >>> dual_pays((784, 200, 200, 10), [Length(600, 1)], chosen)
    False
    """
    if not _has_dual(widths, settings):
        return False
    features, units = widths[:2]
    if features * units < _WORTH_WEIGHTS:
        return False
    num = max(length.num_samples for length in lengths)
    if _FLOAT_BYTE * len(lengths) * num * num > _MOST_GRAM_BYTE:
        return False
    batch = min(settings.batch_size, num)
    lines = batch * sum(length.num_steps(settings.batch_size) for length in lengths)
    plain = 4 * lines * features * units
    # Half of X X^T, by panels; X V_0 and V_t; the steps.
    once = num * (num + PANEL) * features + 4 * num * features * units
    return len(lengths) * once + 2 * lines * num * units <= _WORTH * plain


def _has_dual(widths: Widths, settings: LocalSettings) -> bool:
    """Whether the form is written for such networks and settings."""
    return len(widths) > 2 and not settings.optimizer.momentum


class DualChainStack:
    """K models of one shape in training, side by side, each from its own base and on own samples.

    What `linear_chain.ChainStack` is, but for the memory of the samples.
    """

    def __init__(
        self,
        widths: Widths,
        bases: Sequence[Parameters],
        samples: Samples,
        settings: LocalSettings,
        *,
        batch: int,
        own: Tensor,
        hinge: Hinge | None = None,
        space: Workspace | None = None,
    ) -> None:
        """Build it; the arithmetic is that of `samples`, in type and place.

        Args:
            widths: shape of every model; three at least.
            bases: flat vectors [P] to start from, one per model; copied.
            samples: of all clients.
            settings: optimizer, without momentum, and proximal term of all models.
            batch: samples of one batch.
            own: which samples are each model's [K, n] int64, in the order in which its first epoch
                takes them; see `batches.in_turn`.
            hinge: the loss; None: cross-entropy.
            space: where its large arrays lie, for one stack at a time; None: its own.

        Raises:
            ValueError: there is no layer above the first, or there is momentum.
        """
        if not _has_dual(widths, settings):
            raise ValueError("the dual form is for a layer below others, without momentum")
        if space is None:
            space = Workspace()
        features, self._units = widths[:2]
        num_models, num = own.shape
        like = samples.like
        self._batch, self._like, self._own = batch, like, own
        stop = (features + 1) * self._units
        upper = {id(base): base[stop:] for base in bases}
        above = [upper[id(base)] for base in bases]
        self._upper = ChainStack(widths[1:], above, like, settings, batch=batch, hinge=hinge)
        flat, owner = on_device(bases, device=like.device, dtype=like.dtype)
        weights = flat[:, : features * self._units].view(-1, self._units, features)
        biases = flat[:, features * self._units : stop]
        self._weights, self._biases = (_of_models(each, owner) for each in (weights, biases))
        self._uses_onednn = like.dtype == torch.float32 and prefers_onednn_for_long(
            ((batch, num, self._units),)
        )
        self._multiplied = products_of(samples, num, self._units, space)
        layers = list(map(self._multiplied.layer, weights, biases))
        products = space.take("products", (num_models, num, self._units), like)
        gram = space.take("gram", (num_models, num, num), like)
        # One after the other: each finds its samples in the cache, and all need the memory of one.
        for model, base in enumerate(owner.tolist()):
            self._multiplied.take(own[model])
            self._multiplied.outputs(layers[base], products[model])
            self._multiplied.gram(gram[model])
        self._products, self._gram = products.flatten(0, 1), gram.flatten(0, 1)
        self._dual = space.take("dual", (num_models, num, self._units), like).zero_()
        self._dual_rows = self._dual.flatten(0, 1)
        self._gathered = space.take("gathered", (num_models * batch * num,), like)
        self._slopes = space.take("slopes", (num_models * batch * self._units,), like)
        self._num_seen = 0
        sgd = settings.optimizer
        self._rate, self._decay = sgd.learning_rate, sgd.weight_decay
        self._mu = settings.proximal_mu
        self._share = 1.0
        self._shares = like.new_ones(num_models, 1)

    def step(
        self, rows: Tensor, labels: Tensor, weights: Tensor, likelihoods: Tensor | None = None
    ) -> None:
        """One step of SGD for the first k models.

        Args:
            rows: of the models' own samples, one model's after the other's; else as of
                `linear_chain.ChainStack.step`, as are all others.
            labels: see there.
            weights: see there.
            likelihoods: see there.
        """
        num, batch, units = rows.numel() // self._batch, self._batch, self._units
        outputs = self._upper.inputs(num)
        torch.index_select(self._products, 0, rows, out=outputs.flatten(0, 1))
        seen = self._num_seen
        if seen:
            # Nobody has a part in A whose turn has not come.
            gram = view(self._gathered, len(rows), seen)
            torch.index_select(self._gram[:, :seen], 0, rows, out=gram)
            # Torch copies for oneDNN what does not lie together, and that costs more than MKL.
            is_whole = seen == self._dual.shape[1]
            with onednn(is_allowed=self._uses_onednn and is_whole):
                outputs.baddbmm_(
                    gram.view(num, batch, seen), self._dual[:num, :seen], beta=self._share
                )
        outputs.relu_()
        slopes = view(self._slopes, num, batch, units)
        self._upper.learn(labels, weights, likelihoods, slopes)
        relu_backward(slopes, outputs, 0, grad_input=slopes)
        if self._decay or self._mu:
            self._dual[:num, :seen].mul_(1 - self._rate * (self._decay + self._mu))
            pull = self._decay * self._share + self._mu * (self._share - 1)
            self._share -= self._rate * pull
            # Those who train no more keep theirs.
            self._shares[:num] = self._share
        self._dual_rows.index_add_(0, rows, slopes.flatten(0, 1), alpha=self._rate)
        self._num_seen = min(seen + batch, self._dual.shape[1])

    def vectors(self) -> NDArray[np.float32]:
        """Flat vectors of all models [K, P], in the arithmetic's own type."""
        upper = self._upper.vectors()
        num_models, units, features = self._weights.shape
        stop = units * features
        vectors = self._like.new_empty(num_models, stop + units + upper.shape[1])
        moves = self._dual.transpose(1, 2)
        weights = vectors[:, :stop].view(num_models, units, features)
        for model in range(num_models):
            self._multiplied.take(self._own[model])
            self._multiplied.combination(moves[model], weights[model])
        weights.addcmul_(self._weights, self._shares.unsqueeze(2))
        biases = vectors[:, stop : stop + units]
        torch.addcmul(moves.sum(dim=2), self._biases, self._shares, out=biases)
        vectors[:, stop + units :] = torch.from_numpy(upper)
        return vectors.numpy()


def _of_models(values: Tensor, owner: Tensor) -> Tensor:
    """The part of each model's base [K, ...]; one base that all share is not copied."""
    if len(values) == 1:
        return values.expand(len(owner), *values.shape[1:])
    return values.index_select(0, owner)
