"""Optimizers of local training: directions of their steps, written out.

A step is w <- w - h d with the learning rate h. From the gradient g of a step, with weight decay l,
first g <- g + l w (not for AdamW), the direction d is

* sgd: d = g; with momentum m, dampening p: v <- m v + (1 - p) g, but v = g at the first step;
  d = v, or g + m v by Nesterov;
* adam: m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2; step s counts from 1;
  d = (m / (1 - b1^s)) / (sqrt(v / (1 - b2^s)) + epsilon);
* adamw: as adam, d + l w;
* adagrad: v <- v + g^2 from `initial_sum`; d = g / (sqrt(v) + epsilon);
* rmsprop: v <- a v + (1 - a) g^2; d = g / (sqrt(v) + epsilon); centered: u <- a u + (1 - a) g and
  v - u^2 in place of v; with momentum m: r <- m r + g / (...), d = r.

They are those of `torch.optim`, whose constructors import torch's compiler. Sources: Sutskever et
al., ICML 2013 (Nesterov's form); Kingma, Ba, ICLR 2015; Loshchilov, Hutter, ICLR 2019; Duchi,
Hazan, Singer, JMLR 2011; Tieleman, Hinton, Coursera lecture 6.5, 2012.

All operations are elementwise, so a tensor may hold one weight of many models.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from fleetsim.learning.local.optimizer_settings import (
    AdagradSettings,
    AdamOptions,
    AdamSettings,
    AdamWSettings,
    OptimizerSettings,
    RmsPropSettings,
    SgdSettings,
)
from fleetsim.learning.local.step_settings import StepSettings

_CLIP_EPSILON = 1e-6
"""Added to the norm that divides, as in `torch.nn.utils.clip_grad_norm_`."""
Moments = tuple[Tensor, ...]
"""State of an optimizer for one parameter, `num_moments` tensors of its shape."""


def initial_moments(settings: OptimizerSettings, parameter: Tensor) -> Moments:
    """Return the moments of a parameter at the start of a task."""
    initial = settings.initial_sum if isinstance(settings, AdagradSettings) else 0.0
    return tuple(torch.full_like(parameter, initial) for _ in range(settings.num_moments))


def direction(
    settings: OptimizerSettings, gradient: Tensor, parameter: Tensor, moments: Moments, step: int
) -> Tensor:
    """Return the direction of a step; it may be the gradient or a moment itself.

    The gradient has the proximal term and is clipped. Moments change in place; gradient and
    parameter do not. The first step of a task is 1.
    """
    if isinstance(settings, AdamWSettings):
        along = _adam(settings, gradient, moments, step)
        return along.add_(parameter, alpha=settings.weight_decay)
    if settings.weight_decay:
        gradient = gradient.add(parameter, alpha=settings.weight_decay)
    match settings:
        case SgdSettings():
            return _sgd(settings, gradient, moments, step)
        case AdamSettings():
            return _adam(settings, gradient, moments, step)
        case AdagradSettings():
            (total,) = moments
            total.addcmul_(gradient, gradient)
            return gradient / square_root(total).add_(settings.epsilon)
        case RmsPropSettings():
            return _rmsprop(settings, gradient, moments)


def _sgd(settings: SgdSettings, gradient: Tensor, moments: Moments, step: int) -> Tensor:
    if not settings.momentum:
        return gradient
    (velocity,) = moments
    share = 1.0 if step == 1 else 1.0 - settings.dampening
    velocity.mul_(settings.momentum).add_(gradient, alpha=share)
    return gradient.add(velocity, alpha=settings.momentum) if settings.nesterov else velocity


def _adam(settings: AdamOptions, gradient: Tensor, moments: Moments, step: int) -> Tensor:
    mean, square = moments
    mean.mul_(settings.beta1).add_(gradient, alpha=1.0 - settings.beta1)
    square.mul_(settings.beta2).addcmul_(gradient, gradient, value=1.0 - settings.beta2)
    root = square_root(square).div_(math.sqrt(1.0 - settings.beta2**step)).add_(settings.epsilon)
    return (mean / (1.0 - settings.beta1**step)).div_(root)


def _rmsprop(settings: RmsPropSettings, gradient: Tensor, moments: Moments) -> Tensor:
    square, *others = moments
    square.mul_(settings.alpha).addcmul_(gradient, gradient, value=1.0 - settings.alpha)
    variance = square
    if settings.centered:
        mean = others.pop(0)
        mean.mul_(settings.alpha).add_(gradient, alpha=1.0 - settings.alpha)
        variance = square.addcmul(mean, mean, value=-1.0)
    scaled = gradient / square_root(variance).add_(settings.epsilon)
    if not others:
        return scaled
    (velocity,) = others
    return velocity.mul_(settings.momentum).add_(scaled)


def square_root(values: Tensor) -> Tensor:
    """Return the square root of values >= 0, a new tensor, correctly rounded on the CPU.

    torch's own begins with the processor's approximation and differs between processors. Rounding
    may leave a variance a little below 0; its root is not a number, as in torch.
    """
    if not values.is_cpu:
        return values.sqrt()
    with np.errstate(invalid="ignore"):
        roots: Tensor = torch.as_tensor(np.sqrt(np.asarray(values)))
    return roots


def clip_factor(norm: Tensor, max_norm: float) -> Tensor:
    """Return the factor that limits gradients of a norm to a largest one; 1 below it."""
    return (max_norm / (norm + _CLIP_EPSILON)).clamp_(max=1.0)


def norm_of(norms: Iterable[Tensor]) -> Tensor:
    """Return the norm of all gradients from the norms of each [...]."""
    norm: Tensor = torch.linalg.vector_norm(torch.stack(list(norms)), dim=0)
    return norm


class Descent:
    """Steps of one model in one task: its optimizer's state, and the model that was sent.

    `num_taken` is the number of steps so far.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        settings: StepSettings,
        *,
        num_steps: int,
        anchors: Sequence[Tensor] | None = None,
    ) -> None:
        """Start a task.

        Steps change the weights in place; the schedule within the task has `num_steps`. The
        proximal term holds them near the anchors; None: near those at the start.
        """
        self._parameters = parameters
        self._settings = settings
        self._num_steps = num_steps
        # Copies only if the settings need them: those of a large model take memory and time.
        if anchors is None and settings.proximal_mu:
            anchors = [parameter.detach().clone() for parameter in parameters]
        self._anchors = anchors if settings.proximal_mu else None
        self._moments = [initial_moments(settings.optimizer, p.detach()) for p in parameters]
        self.num_taken = 0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Update the weights in place by one step along the loss's gradients."""
        self.num_taken += 1
        limit = self._settings.max_gradient_norm
        if limit is not None:
            gradients = [self._pulled(at, gradient) for at, gradient in enumerate(gradients)]
            norm = norm_of(map(torch.linalg.vector_norm, gradients))
            shrunk = clip_factor(norm, limit)
            gradients = [gradient * shrunk for gradient in gradients]
        for at, gradient in enumerate(gradients):
            self._update(at, gradient if limit is not None else self._pulled(at, gradient))

    def step_in_backward(self, loss: Tensor) -> None:
        """Take the step along the gradients of a loss, of which one at a time is held.

        A weight is updated as soon as its gradient is known, so no operation may read it later in
        the backward pass.

        Raises:
            ValueError: the norm of all gradients is limited.
            RuntimeError: the loss does not depend on a weight.
        """
        if self._settings.max_gradient_norm is not None:
            raise ValueError("a limited norm needs all gradients at once; call step")
        self.num_taken += 1
        waiting = dict(enumerate(self._parameters))
        # Before torch adds a gradient to `weight.grad`, in a copy if their layouts differ.
        hooks = [
            get_gradient_edge(weight).node.register_prehook(
                partial(self._take_gradient, waiting, at)
            )
            for at, weight in waiting.items()
        ]
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            for hook in hooks:
                hook.remove()
        if waiting:
            raise RuntimeError(f"the loss does not depend on {len(waiting)} of the weights")

    @torch.no_grad()
    def _take_gradient(
        self, waiting: dict[int, Tensor], at: int, gradients: tuple[Tensor, ...]
    ) -> tuple[None]:
        (gradient,) = gradients
        del waiting[at]
        self._update(at, self._pulled(at, gradient))
        return (None,)

    def _update(self, at: int, gradient: Tensor) -> None:
        optimizer, weight = self._settings.optimizer, self._parameters[at]
        factor = optimizer.within_task.factor_at(self.num_taken, self._num_steps)
        along = direction(optimizer, gradient, weight, self._moments[at], self.num_taken)
        weight.sub_(along, alpha=optimizer.learning_rate * factor)

    def _pulled(self, at: int, gradient: Tensor) -> Tensor:
        if self._anchors is None:
            return gradient
        pull = self._parameters[at] - self._anchors[at]
        return gradient.add(pull, alpha=self._settings.proximal_mu)
