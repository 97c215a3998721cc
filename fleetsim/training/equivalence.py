"""Proof that a trainer equals the serial one on a user's network, in float64.

Both train the same clients (`trial_clients`). In exact arithmetic equal trainers give equal
weights; in float64 they differ by rounding, some 1e-15 of the change of the weights. A trainer that
treats a layer wrongly differs by far more. The bound, 1e-9, lies between the two. Then both
evaluate a model, and no sample's loss may depend on the samples beside it, since trainers evaluate
different numbers of samples at once. The proof runs on the CPU, whatever device trains later.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fleetsim.contracts import JobResult, SampleForm
from fleetsim.errors import PluginError
from fleetsim.kernels.base import Kernel
from fleetsim.learning.local.step_settings import MODEL_LOSS, LossKind
from fleetsim.learning.models.model_fault import ModelFaultError, from_code_of
from fleetsim.training.settings import TrainerKind
from fleetsim.training.trainer_choice import kernel_class
from fleetsim.training.trial_clients import NUM_TESTED, Trial, trial_settings, vector_of

BOUND = 1e-9
"""Largest difference of equal trainers, relative to the change of the weights."""
_RATES = (0.02, 0.0001)
"""Learning rates: the second if the first proves nothing. Large steps through a network that is
badly conditioned, such as a BatchNorm over few values, enlarge rounding or lead to weights that are
not finite. Small ones do not, while a wrong trainer differs by as much of the change as before."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of the comparison of a trainer with the serial one."""

    trainer: TrainerKind
    difference: float | None
    """Largest difference of weights, relative to their largest change; of losses, relative to the
    largest. None: there is none to compare."""
    fault: str | None
    """Reason for which the trainer is not proved equal; None: it is."""


def proved(proof: Proof) -> str:
    """Return in one line that a trainer is proved equal."""
    return f"equal to serial within {proof.difference:.1e} in float64, bound {BOUND:.0e}"


def proof_of(
    trainer: TrainerKind, module: nn.Module, samples: SampleForm, loss: LossKind = MODEL_LOSS
) -> Proof:
    """Compare a trainer with the serial one on a network and samples of a form.

    The network does not change, nor do the global random generators.
    """
    try:
        trial = Trial.of(module, samples, torch.float64)
        for rate in _RATES:
            proof = _compared(trainer, trial, rate, loss)
            if proof.fault is None:
                break
    except (ModelFaultError, PluginError) as fault:
        return Proof(trainer, None, str(fault))
    return proof


def _compared(trainer: TrainerKind, trial: Trial, learning_rate: float, loss: LossKind) -> Proof:
    settings = trial_settings(learning_rate, loss)
    with from_code_of("serial training in float64"):
        serial = trial.kernel(Kernel, settings)
        expected = trial.train(serial)
    if not all(np.isfinite(vector_of(result)).all() for result in expected):
        return Proof(trainer, None, "the weights of the trial are not finite")
    with from_code_of(trainer):
        fast = trial.kernel(kernel_class(trainer), settings)
        results = trial.train(fast)
        difference = max(
            _weights_apart(trial, results, expected), _losses_apart(trial, fast, serial)
        )
    if difference <= BOUND:
        return Proof(trainer, difference, None)
    return Proof(trainer, difference, f"it differs from serial by {difference:.1e} in float64")


def _weights_apart(trial: Trial, results: list[JobResult], expected: list[JobResult]) -> float:
    """Return the largest difference of weights and training losses; see `Proof`."""
    apart = []
    for job, one, other in zip(trial.jobs, results, expected, strict=True):
        assert one.loss is not None
        assert other.loss is not None
        change = float(np.abs(vector_of(other) - job.base).max())
        apart.append(float(np.abs(vector_of(one) - vector_of(other)).max()) / change)
        apart.append(abs(one.loss - other.loss) / max(abs(other.loss), BOUND))
    return max(apart)


def _losses_apart(trial: Trial, fast: Kernel, serial: Kernel) -> float:
    """Return the largest difference of losses of the server's samples, together and alone."""
    model = trial.jobs[0].base
    expected, _ = serial.evaluate(model, "test", 0, NUM_TESTED)
    together, _ = fast.evaluate(model, "test", 0, NUM_TESTED)
    alone = [fast.evaluate(model, "test", i, i + 1)[0] for i in range(NUM_TESTED)]
    size = max(float(np.abs(expected).max()), BOUND)
    return max(
        float(np.abs(other - expected).max()) / size for other in (together, np.concatenate(alone))
    )
