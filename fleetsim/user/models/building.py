"""Building of a network of the user's own, with addressed random draws.

The user's class or function draws the initial weights itself, as torch's layers do when they are
made, from global generators that are set to the address (seed, "model") and restored afterwards. So
equal seeds give equal weights, whatever was drawn before.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fleetsim.contracts import SampleForm
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.model_fault import ModelFaultError, from_code_of
from fleetsim.learning.models.synthetic_samples import zero_batch
from fleetsim.user.models import module_checks
from fleetsim.user.watched_calls import model_faults

_BATCH_NORMS = nn.modules.batchnorm._BatchNorm


def initial_network(
    make: Callable[[], object], label: str, samples: SampleForm, *, seed: int
) -> nn.Module:
    """Return the network with its initial weights on the CPU, checked.

    A BatchNorm's count of batches is left out, as in fleetsim's own networks: nothing reads it
    where the running statistics decay at a fixed rate. `make` calls the user's class or function,
    and says its own faults.
    """
    with model_faults(label):
        module = _initial(make, samples, seed)
        module_checks.check_weights(module)
        # Built twice in every run, so that a generator without a seed is noticed.
        if flatten(module).tobytes() != flatten(_initial(make, samples, seed)).tobytes():
            raise ModelFaultError(
                "it is built with other weights the second time; draw them from torch's, numpy's or"
                " random's global generators, which fleetsim seeds, or with a seed of their own"
            )
        for layer in module.modules():
            if isinstance(layer, _BATCH_NORMS):
                layer.num_batches_tracked = None
        module_checks.check_forward(module, samples)
    return module


def _initial(make: Callable[[], object], samples: SampleForm, seed: int) -> nn.Module:
    """Return the network with its initial weights on the CPU, not checked."""
    with addressed(seed, "model"):
        module = make()
        if not isinstance(module, nn.Module):
            made: Any = module
            what = f"the class {made.__name__}" if isinstance(made, type) else type(made).__name__
            raise ModelFaultError(f"gives {what}, not an object of torch.nn.Module")
        with from_code_of("its move to the CPU"):
            module = module.to("cpu")
        if any(nn.parameter.is_lazy(value) for value in module.parameters()):
            # Lazy layers take their sizes from the samples of a first pass.
            with torch.no_grad(), from_code_of("its first forward pass, for its lazy layers,"):
                module.eval()(zero_batch(samples, 2))
    return module.train()
