"""Losses of the user's own."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fleetsim.contracts import Loss, SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.local.step_settings import LossKind, LossSettings
from fleetsim.learning.models.model_fault import ModelFaultError
from fleetsim.quoting import quoted
from fleetsim.user.parts.models import ModelPlugins
from fleetsim.user.plugin import PluginKind, PluginSettings, accepts, kinds_of
from fleetsim.user.watched_calls import WatchedCalls, faults_of

FORMS = (SampleForm((4,), 10), SampleForm((4,), 2), SampleForm((6,), 30, 30, is_sequence=True))
"""Forms of samples that are tried in turn; the first is taken on which the loss does not fail."""


class LossPluginSettings(PluginSettings, LossKind):
    """Settings of a loss of the user's own."""

    def build(self) -> Loss:
        """Return a new loss, each of whose answers is checked."""
        from fleetsim.user.parts.checked_loss import CheckedLoss  # noqa: PLC0415

        return CheckedLoss(self.part(), self.plugin.label)

    def check_on(self, samples: SampleForm) -> None:
        """Check the loss on drawn logits for samples of a form."""
        from fleetsim.user.parts.checked_loss import check_loss, function_of  # noqa: PLC0415

        key = f"task.local.loss.kind = {quoted(self.kind)}"
        with faults_of(key), addressed(0, "trial") as draws:
            check_loss(function_of(self.build()), samples)
        if draws.library is not None:
            raise ScenarioError(
                f"{key}: losses draws from or seeds the global generator of {draws.library}; a loss"
                " depends on its arguments alone"
            )


class LossPlugins(PluginKind):
    """Kind of the losses, at `task.local.loss`."""

    name = "loss"
    noun = "a loss"
    key_path = ("task", "local", "loss")
    protocol = Loss
    marks = frozenset({"losses"})
    bundled = kinds_of(LossSettings)
    settings_base = LossPluginSettings
    takes_functions = True

    @classmethod
    def claims(cls, given: object) -> bool:
        """Return whether a class has `losses` and is no network, which may have its own loss."""
        return not ModelPlugins.claims(given) and super().claims(given)

    @classmethod
    def claims_function(cls, function: Callable[..., Any]) -> bool:
        """Return whether a function takes outputs and labels, and nothing else that it needs."""
        return accepts(function, None, None) and not accepts(function, None)

    @classmethod
    def of_function(cls, function: Callable[..., Any]) -> object:
        """Return a function `losses(outputs, labels)`, which is a loss itself."""
        return function

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object is no loss: it has no `losses`, and cannot be called itself."""
        if hasattr(made, "losses"):
            return super().fault(made)
        if not callable(made):
            return f"is no loss, it lacks losses; {cls.page} has an example"
        if not accepts(made, None, None):
            return f"cannot be called with outputs and labels; {cls.page} has an example"
        return None

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `PluginKind.check`."""
        from fleetsim.user.parts import checked_loss  # noqa: PLC0415

        part = make()
        message = checked_loss.weights_fault(part)
        if message is not None:
            raise calls.refused(message)

        def rehearse(samples: SampleForm) -> ModelFaultError | None:
            try:
                checked_loss.check_loss(checked_loss.function_of(part), samples)
            except ModelFaultError as fault:
                return fault
            return None

        first: ModelFaultError | None = None
        for samples in FORMS:
            fault: ModelFaultError | None = calls.watched("losses", partial(rehearse, samples))
            if fault is None:
                return
            first = first or fault
            if " fails: " not in str(fault):
                raise calls.refused(str(fault)) from fault
        raise calls.refused(str(first)) from first
