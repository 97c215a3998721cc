"""Rehearsal of a loss on drawn logits and labels, of one label and of a label at every position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fleetsim.contracts import SampleForm
from fleetsim.plugins.conformance.watched_calls import WatchedCalls

FORMS = (SampleForm((4,), 10), SampleForm((4,), 2), SampleForm((6,), 30, 30, is_sequence=True))
"""Forms of samples that are tried in turn; the first is taken on which the loss does not fail."""


def check_own_loss(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that losses of one class keep the contract.

    Args:
        make: function that makes a new one.
        calls: calls of its methods.

    Raises:
        ScenarioError: one line on the first fault.
    """
    from fleetsim.learning.local import own_loss  # noqa: PLC0415
    from fleetsim.learning.models.own.model_fault import ModelFaultError  # noqa: PLC0415

    part = make()
    says = own_loss.weights_fault(part)
    if says is not None:
        raise calls.refused(says)

    def rehearse(samples: SampleForm) -> ModelFaultError | None:
        try:
            own_loss.check_loss(own_loss.function_of(part), samples)
        except ModelFaultError as fault:
            return fault
        return None

    first: ModelFaultError | None = None
    for samples in FORMS:
        found: ModelFaultError | None = calls.watched("losses", partial(rehearse, samples))
        if found is None:
            return
        first = first or found
        if " fails: " not in str(found):
            raise calls.refused(str(found)) from found
    raise calls.refused(str(first)) from first
