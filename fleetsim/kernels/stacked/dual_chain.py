"""Stack of small networks of one shape, the first layer of each in its dual form.

It equals `linear_chain`, and is faster for clients with few samples and many epochs. SGD steps move
the weights of a linear layer only along its inputs. So with the n samples of a client as rows of X,
the bias as the weight of one more feature that is 1, and V = [W, b]^T,

    V_t = c_t V_0 + X^T A_t.

A step updates one row of A for every sample [n, units] and the scalar c, instead of V. On a batch B
with gradients s of the log-likelihood,

    z[B] = c (X V_0)[B] + (X X^T)[B] A,    A <- (1 - r (d + m)) A,    A[B] <- A[B] + r s,
    c <- c - r (d c + m (c - 1)),

with the learning rate r, weight decay d and the proximal term's m. Products with A have n
terms, those with V as many as there are features, and the gradient of V is never formed. X V_0,
X X^T and V_t are large products, computed once. In exact arithmetic the results are equal.

Source of the form, without decay and pull: Irie, Csordas, Schmidhuber, "The Dual Form of Neural
Networks Revisited", ICML 2022, PMLR 162, pages 9639-9659.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleetsim.contracts import Parameters
from fleetsim.kernels.batches import Length, largest_batch
from fleetsim.kernels.cpu.gemm import Widths, onednn, prefers_onednn_for_long
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.kernels.device_samples import DeviceSamples, on_device
from fleetsim.kernels.stacked.client_products import PANEL, products_of
from fleetsim.kernels.stacked.linear_chain import ChainStack, relu_backward, view
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.model_kind import Hinge

_MAX_RATIO = 0.8
"""Largest ratio of the dual form's arithmetic to the plain one's for which it is used. Measured for
first layers of 784 x 50 to 3072 x 200, 60 to 900 samples, 2 to 10 epochs in batches of 10 to 50, on
one core of an AMD EPYC (Zen 4): whole stacks took 0.24 to 0.93 times as long up to there, and up to
1.3 times beyond."""
_MIN_WEIGHTS = 20_000
"""Least number of weights of a first layer in the dual form; below, starting operations
dominates."""
_MAX_GRAM_BYTE = 32_000_000
"""Largest size of the products X X^T of one stack, in float32. Half of it was measured. Where they
are far larger than the caches, every step would read its rows from memory."""
_FLOAT_BYTE = 4


def dual_form_is_faster(widths: Widths, lengths: Sequence[Length], settings: StepSettings) -> bool:
    """Return whether a stack trains faster with its first layer in the dual form.

    The rule depends on sizes alone. The network needs a layer above the first, and no momentum,
    which would take as many passes over A as over V.
    """
    if len(widths) <= 2 or settings.plain_sgd().momentum:
        return False
    features, units = widths[:2]
    if features * units < _MIN_WEIGHTS:
        return False
    num = max(length.num_samples for length in lengths)
    if _FLOAT_BYTE * len(lengths) * num * num > _MAX_GRAM_BYTE:
        return False
    batching = settings.batching
    num_steps = sum(length.num_steps(batching) for length in lengths)
    lines = largest_batch(lengths, batching) * num_steps
    plain = 4 * lines * features * units
    # Half of X X^T, by panels; X V_0 and V_t; the steps.
    once = num * (num + PANEL) * features + 4 * num * features * units
    return len(lengths) * once + 2 * lines * num * units <= _MAX_RATIO * plain


class DualChainStack:
    """Stack of K models of one shape in training, each from its own base, on its own samples.

    It has the interface of `linear_chain.ChainStack`, but rows refer to the stack's own samples.
    """

    def __init__(
        self,
        widths: Widths,
        bases: Sequence[Parameters],
        samples: DeviceSamples,
        settings: StepSettings,
        *,
        batch: int,
        client_rows: Tensor,
        hinge: Hinge | None,
        space: Workspace,
    ) -> None:
        """Build it for such networks as `dual_form_is_faster` asks for; copy the bases [P].

        `client_rows` [K, n] int64 are the samples of each model in the order of its first epoch,
        see `batches.in_turn`. The memory `space` is for one stack at a time.
        """
        features, self._units = widths[:2]
        num_models, num = client_rows.shape
        like = samples.like
        self._batch, self._like, self._client_rows = batch, like, client_rows
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
        # One model at a time: its samples stay in the cache, and memory is needed for one client.
        for model, base in enumerate(owner.tolist()):
            self._multiplied.take(client_rows[model])
            self._multiplied.outputs(layers[base], products[model])
            self._multiplied.gram(gram[model])
        self._products, self._gram = products.flatten(0, 1), gram.flatten(0, 1)
        self._dual = space.take("dual", (num_models, num, self._units), like).zero_()
        self._dual_rows = self._dual.flatten(0, 1)
        self._gathered = space.take("gathered", (num_models * batch * num,), like)
        self._gradients = space.take("gradients", (num_models * batch * self._units,), like)
        self._num_seen = 0
        sgd = settings.plain_sgd()
        self._rate, self._decay = sgd.learning_rate, sgd.weight_decay
        self._mu = settings.proximal_mu
        self._share = 1.0
        self._shares = like.new_ones(num_models, 1)

    def step(
        self, rows: Tensor, labels: Tensor, weights: Tensor, likelihoods: Tensor | None = None
    ) -> None:
        """Take one SGD step for the first k models; arguments of `ChainStack.step`."""
        num, batch, units = rows.numel() // self._batch, self._batch, self._units
        outputs = self._upper.inputs(num)
        torch.index_select(self._products, 0, rows, out=outputs.flatten(0, 1))
        seen = self._num_seen
        if seen:
            # Rows of A are 0 for samples that no batch has held yet.
            gram = view(self._gathered, len(rows), seen)
            torch.index_select(self._gram[:, :seen], 0, rows, out=gram)
            # For oneDNN torch copies memory that is not contiguous, which takes longer than MKL.
            is_whole = seen == self._dual.shape[1]
            with onednn(is_allowed=self._uses_onednn and is_whole):
                outputs.baddbmm_(
                    gram.view(num, batch, seen), self._dual[:num, :seen], beta=self._share
                )
        outputs.relu_()
        gradients = view(self._gradients, num, batch, units)
        self._upper.learn(labels, weights, likelihoods, gradients)
        relu_backward(gradients, outputs, 0, grad_input=gradients)
        if self._decay or self._mu:
            self._dual[:num, :seen].mul_(1 - self._rate * (self._decay + self._mu))
            pull = self._decay * self._share + self._mu * (self._share - 1)
            self._share -= self._rate * pull
            # Models that have finished keep theirs.
            self._shares[:num] = self._share
        self._dual_rows.index_add_(0, rows, gradients.flatten(0, 1), alpha=self._rate)
        self._num_seen = min(seen + batch, self._dual.shape[1])

    def vectors(self) -> NDArray[np.float32]:
        """Return the flat vectors of all models [K, P], in the number type of the stack."""
        upper = self._upper.vectors()
        num_models, units, features = self._weights.shape
        stop = units * features
        vectors = self._like.new_empty(num_models, stop + units + upper.shape[1])
        moves = self._dual.transpose(1, 2)
        weights = vectors[:, :stop].view(num_models, units, features)
        for model in range(num_models):
            self._multiplied.take(self._client_rows[model])
            self._multiplied.combination(moves[model], weights[model])
        weights.addcmul_(self._weights, self._shares.unsqueeze(2))
        biases = vectors[:, stop : stop + units]
        torch.addcmul(moves.sum(dim=2), self._biases, self._shares, out=biases)
        vectors[:, stop + units :] = torch.from_numpy(upper)
        return vectors.numpy()


def _of_models(values: Tensor, owner: Tensor) -> Tensor:
    """Return each model's base values [K, ...]; a base that all share is not copied."""
    if len(values) == 1:
        return values.expand(len(owner), *values.shape[1:])
    return values.index_select(0, owner)
