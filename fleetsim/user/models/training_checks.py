"""Checks of the training of a network of the user's own, on the clients of a trial.

Each raises a `ModelFaultError` whose message is one line: what is wrong, where, and the way out.
"""

import numpy as np
import torch
from torch import nn

from fleetsim.contracts import IntArray, SampleForm
from fleetsim.counts import Batching
from fleetsim.kernels.base import Kernel
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.local.loss_settings import MODEL_LOSS, LossKind
from fleetsim.learning.local.sample_losses import losses, losses_of
from fleetsim.learning.models.frozen_weights import FrozenWeights, left_alone
from fleetsim.learning.models.model_fault import ModelFaultError, from_code_of
from fleetsim.learning.models.synthetic_samples import drawn_samples
from fleetsim.quoting import counted
from fleetsim.training.trial_clients import Trial, copied, trial_settings, vector_of
from fleetsim.user.models.module_checks import check_logits

_RATE = 1e-3
_MOST_NAMED = 3


def check_training(module: nn.Module, samples: SampleForm, loss: LossKind = MODEL_LOSS) -> None:
    """Check that a network can be trained, and that a job's result depends on the job alone.

    The network does not change.
    """
    _check_gradients(module, samples, loss)
    trial = Trial.of(module, samples, torch.float32)
    frozen = FrozenWeights(trial.module)
    settings, first = trial_settings(_RATE, loss), [trial.jobs[0]]
    kernel = trial.kernel(Kernel, settings, seeds_draws=True)
    with from_code_of("its training"):
        once = vector_of(kernel.compute(first)[0])
    if (message := frozen.fault(kernel.module)) is not None:
        raise ModelFaultError(f"it {message}")
    with from_code_of("its training"):
        kernel.compute([trial.jobs[1]])
        again = vector_of(kernel.compute(first)[0])
        other = trial.kernel(Kernel, settings, seeds_draws=True)
        fresh = vector_of(other.compute(first)[0])
    if not np.array_equal(once, fresh, equal_nan=True):
        raise ModelFaultError(
            "two trainings from the same weights on the same samples differ; what it draws must"
            " come from torch's, numpy's or random's global generators, which fleetsim sets"
        )
    if not np.array_equal(once, again, equal_nan=True):
        raise ModelFaultError(
            "it keeps state outside of its weights from one client's training to the next"
            f"{_changed(trial, kernel)}; make it a float buffer, or derive it from the samples"
        )


def check_single_samples(
    module: nn.Module,
    samples: SampleForm,
    loss: LossKind = MODEL_LOSS,
    *,
    num_samples: IntArray,
    batching: Batching,
) -> None:
    """Check that a network can be trained on batches of one sample, if some client has such.

    `num_samples` are the training samples of every client [N]. The network does not change.
    """
    having = [k for k, num in enumerate(num_samples.tolist()) if 1 in batching.sizes(num)]
    if not having:
        return
    inputs, labels = drawn_samples(samples, 1)
    tried = copied(module).train()
    client, ways = having[0], _ways_out(num_samples[having], batching)
    held = counted(int(num_samples[client]), "sample")
    rest = f"a batch of one sample, which client {client} has with its {held} ({ways}),"
    with from_code_of(f"its forward pass on {rest}"), addressed(0, "trial"), torch.no_grad():
        outputs = tried(torch.from_numpy(inputs))
    with from_code_of(f"its training on {rest}"):
        loss_of = losses_of(tried, loss.build())
        if loss_of is losses:
            check_logits(outputs, samples, 1)
        loss_of(outputs, torch.from_numpy(labels))


def _ways_out(num_samples: IntArray, batching: Batching) -> str:
    """Return the keys that leave clients of these numbers of samples no batch of one [k]."""
    ways = []
    if batching.size == 1:
        ways.append("raise task.local.batch_size")
    if batching.last == "keep" and (num_samples > 1).any():
        ways.append("set task.local.last_batch: merge, or drop")
    if (num_samples == 1).any():
        ways.append("give every client two samples, as by task.partition.min_samples: 2")
    return "; ".join(ways)


def draws_in_training(
    module: nn.Module, samples: SampleForm, loss: LossKind = MODEL_LOSS
) -> str | None:
    """Return the library from which a network draws random numbers in training; None: none."""
    trial = Trial.of(module, samples, torch.float32)
    with addressed(0, "trial") as draws, from_code_of("its training"):
        trial.kernel(Kernel, trial_settings(_RATE, loss)).compute([trial.jobs[0]])
    return draws.library


def _check_gradients(module: nn.Module, samples: SampleForm, loss: LossKind) -> None:
    """Check that every trained weight gets a gradient from the loss."""
    inputs, labels = drawn_samples(samples, 3)
    tried = copied(module).train()
    named = {name: value for name, value in tried.named_parameters() if value.requires_grad}
    with addressed(0, "trial"), from_code_of("its training"):
        loss_of = losses_of(tried, loss.build())
        with left_alone(tried, ModelFaultError):
            outputs = tried(torch.from_numpy(inputs))
            if loss_of is losses:
                check_logits(outputs, samples, len(labels))
            mean = loss_of(outputs, torch.from_numpy(labels)).mean()
        if not mean.requires_grad:
            raise ModelFaultError(
                "its logits do not depend on its weights by differentiable operations; leave out"
                " detach, argmax, no_grad and .data"
            )
        gradients = torch.autograd.grad(mean, list(named.values()), allow_unused=True)
    # Torch's types do not say that an unused weight has None.
    got: list[torch.Tensor | None] = [*gradients]
    without = [name for name, one in zip(named, got, strict=True) if one is None]
    if without:
        listed = ", ".join(without[:_MOST_NAMED])
        more = f" and {len(without) - _MOST_NAMED} more" if len(without) > _MOST_NAMED else ""
        raise ModelFaultError(
            f"the loss does not depend on {listed}{more}; use the layer, leave it out, or set"
            " requires_grad=False"
        )


def _changed(trial: Trial, kernel: Kernel) -> str:
    """Return the buffers outside of the flat vector that training has changed, for a message."""
    trained = dict(kernel.module.named_buffers())
    changed = [
        name
        for name, buffer in trial.module.named_buffers()
        if (not buffer.is_floating_point() or name not in trial.module.state_dict())
        and not torch.equal(buffer, trained[name])
    ]
    return f" (buffer {', '.join(changed[:_MOST_NAMED])})" if changed else ""
