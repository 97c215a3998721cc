"""Networks and losses of the user's own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fleetsim.contracts import Loss, Model, ModelCost, SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.host.user_code import user_code
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.local.step_settings import LossKind, LossSettings
from fleetsim.learning.models.model_fault import ModelFaultError
from fleetsim.learning.models.model_kind import UserModelKind
from fleetsim.learning.models.settings import ModelSettings
from fleetsim.quoting import quoted
from fleetsim.settings import Settings
from fleetsim.training.settings import TrainerKind
from fleetsim.training.trainer_choice import TrainerQuestion, fault
from fleetsim.user.plugin import PluginKind, PluginSettings, accepts, kinds_of
from fleetsim.user.watched_calls import WatchedCalls, faults_of, refused

if TYPE_CHECKING:
    from torch import nn


FORMS = (
    SampleForm((1, 28, 28), 10),
    SampleForm((3, 32, 32), 10),
    SampleForm((60,), 10),
    SampleForm((80,), 80, 80),
    SampleForm((64,), 80, 80, is_sequence=True),
)
"""Forms of samples that are tried in turn: grey images, colour images, numbers, texts with one
label, texts with a label at every position. The first is taken on which nothing is raised."""

_OF_THE_FORM = (" fails: ", "returns the shape")
"""Words of faults that samples of another form may not have."""


class ModelPluginSettings(PluginSettings, UserModelKind):
    """Settings of a network of the user's own."""

    @property
    def label(self) -> str:
        """Name of the network in messages, as the user gave it."""
        return self.plugin.label

    def build(self, samples: SampleForm) -> Any:
        """Return what the user's class or function gives, unchecked; weights are drawn with it."""
        return network_of(self.part(), samples, self.label)

    def initial_network(self, samples: SampleForm, *, seed: int) -> nn.Module:
        """Return the network with its initial weights, checked."""
        from fleetsim.user.models.building import initial_network  # noqa: PLC0415

        return initial_network(lambda: self.build(samples), self.label, samples, seed=seed)

    def counted_cost(self, module: nn.Module, samples: SampleForm) -> ModelCost:
        """Return the cost of the network, counted or as it declares it."""
        from fleetsim.user.models.user_cost import counted_cost  # noqa: PLC0415

        with faults_of(self.label):
            return counted_cost(module, samples)

    def proved_trainer(self, asked: TrainerQuestion) -> tuple[TrainerKind, str]:
        """Return the trainer; see `ChoosesTrainer`."""
        from fleetsim.user.models.trainer_choice import (  # noqa: PLC0415
            check_single_samples,
            check_training,
            choose_user_trainer,
        )

        module, samples, local = asked.module, asked.samples, asked.local
        if (message := fault(asked.requested, self, local)) is not None:
            raise ScenarioError(f"trainer.{message[0]}: {message[1]}")
        with faults_of(self.label):
            check_training(module, samples, local.loss)
            check_single_samples(
                module, samples, local.loss, num_samples=asked.num_samples, batching=local.batching
            )
            return choose_user_trainer(asked)


class NetworkMaker:
    """Class or function of the user's own with its settings, if any, which makes networks."""

    def __init__(self, call: Callable[..., object], *given: object) -> None:
        self.call = call
        self._given = given
        try:
            self._takes_samples = "samples" in inspect.signature(call).parameters
        except ValueError:
            # A built-in function does not say what it takes; the call tells the rest.
            self._takes_samples = False

    def network(self, samples: SampleForm, label: str) -> object:
        """Call it, with `samples` if it has a parameter of that name."""
        named = {"samples": samples} if self._takes_samples else {}
        words = [*(["settings"] if self._given else []), *named]
        call = f"{getattr(self.call, '__name__', 'it')}({', '.join(words)})"
        if not accepts(self.call, *self._given, **named):
            raise refused(
                label,
                f"cannot be called as {call}; give its parameters defaults, or call one samples: it"
                " gets samples.input_shape and samples.num_classes",
            )
        with user_code(f"{label}: {call}"):
            return self.call(*self._given, **named)


def network_of(part: Any, samples: SampleForm, label: str) -> object:
    """Return what a maker of networks makes for samples of a form, or a network itself."""
    if ModelPlugins.claims(type(part)):
        return part
    maker = part if isinstance(part, NetworkMaker) else NetworkMaker(part)
    return maker.network(samples, label)


class ModelPlugins(PluginKind):
    """Kind of the networks, at `task.model`."""

    name = "model"
    noun = "a model"
    key_path = ("task", "model")
    protocol = Model
    marks = frozenset({"torch.nn.Module"})
    bundled = kinds_of(ModelSettings)
    settings_base = ModelPluginSettings
    takes_functions = True

    @classmethod
    def claims(cls, given: object) -> bool:
        """Return whether a class is a `torch.nn.Module`; torch is not imported for it."""
        torch = sys.modules.get("torch")
        return torch is not None and isinstance(given, type) and issubclass(given, torch.nn.Module)

    @classmethod
    def claims_function(cls, function: Callable[..., Any]) -> bool:
        """Return whether a function can be called with nothing, or with `samples` alone."""
        return accepts(function) or accepts(function, samples=None)

    @classmethod
    def of_class(cls, definition: type, settings: Settings | None = None) -> object:
        """Return a maker of networks: what they are made for is known once there are samples."""
        return NetworkMaker(definition) if settings is None else NetworkMaker(definition, settings)

    @classmethod
    def of_function(cls, function: Callable[..., Any]) -> object:
        """Return a maker of the networks that a function returns."""
        return NetworkMaker(function)

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object is neither a maker of networks nor a network."""
        if isinstance(made, NetworkMaker) or callable(made):
            return None  # a network can be called, too
        return (
            "is no model: not a torch.nn.Module, nor a class or function that makes one;"
            f" {cls.page} has an example"
        )

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `PluginKind.check`.

        A network, or the class of one, may say by an attribute `sample_form` on which samples it is
        tried; else `FORMS` are.
        """
        from fleetsim.learning.models.flat_vector import weights_text  # noqa: PLC0415
        from fleetsim.user.models.building import initial_network  # noqa: PLC0415
        from fleetsim.user.models.trainer_choice import check_training  # noqa: PLC0415
        from fleetsim.user.models.user_cost import counted_cost  # noqa: PLC0415

        part = make()
        form = getattr(part.call if isinstance(part, NetworkMaker) else part, "sample_form", None)
        forms = FORMS if form is None else (form,)
        faults: list[ScenarioError] = []
        for samples in forms:
            try:
                module = initial_network(
                    partial(network_of, part, samples, calls.label), calls.label, samples, seed=1
                )
            except ScenarioError as fault:
                faults.append(fault)
                if any(words in str(fault) for words in _OF_THE_FORM):
                    continue  # it may be meant for samples of another form
                raise
            with faults_of(calls.label):
                counted_cost(module, samples)
                check_training(module, samples)
            if calls.on_note is not None:
                calls.on_note(weights_text(module))
            return
        # That it computed something says more than that it could not.
        first = next((fault for fault in faults if _OF_THE_FORM[0] not in str(fault)), faults[0])
        if form is not None:
            raise first
        shapes = ", ".join(str(samples.input_shape) for samples in FORMS)
        raise ScenarioError(
            f"{first}; samples of the shapes {shapes} were tried: for others give it an attribute"
            " sample_form, or try it on those of a scenario: fleetsim validate SCENARIO --plugin"
        ) from first


_LOSS_FORMS = (
    SampleForm((4,), 10),
    SampleForm((4,), 2),
    SampleForm((6,), 30, 30, is_sequence=True),
)
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
        if (message := checked_loss.weights_fault(part)) is not None:
            raise calls.refused(message)

        def rehearse(samples: SampleForm) -> ModelFaultError | None:
            try:
                checked_loss.check_loss(checked_loss.function_of(part), samples)
            except ModelFaultError as fault:
                return fault
            return None

        first: ModelFaultError | None = None
        for samples in _LOSS_FORMS:
            fault: ModelFaultError | None = calls.watched("losses", partial(rehearse, samples))
            if fault is None:
                return
            first = first or fault
            if " fails: " not in str(fault):
                raise calls.refused(str(fault)) from fault
        raise calls.refused(str(first)) from first
