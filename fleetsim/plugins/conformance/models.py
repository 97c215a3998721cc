"""Rehearsal of a network: it is built, counted and trained on made-up samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.models.own.own_model import OwnModelKind
from fleetsim.plugins.conformance.watched_calls import WatchedCalls
from fleetsim.plugins.models import NetworkMaker, network_of

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
_FORWARD = "its forward pass"


def check_model(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that networks of one class can be simulated.

    Args:
        make: function that makes a new one, or a maker of them. A network, or the class of one, may
            say by an attribute `sample_form` on which samples it is tried; else `FORMS` are.
        calls: calls of its methods.

    Raises:
        ScenarioError: one line on the first fault.
    """
    from fleetsim.learning.models.frozen_weights import weights_text  # noqa: PLC0415
    from fleetsim.learning.models.own.building import build_own  # noqa: PLC0415
    from fleetsim.learning.models.own.model_fault import ModelFaultError  # noqa: PLC0415
    from fleetsim.learning.models.own.own_cost import own_cost  # noqa: PLC0415
    from fleetsim.learning.training.own.training_checks import check_training  # noqa: PLC0415

    part = make()
    own = _Rehearsed.of(part, calls.said)
    wanted = getattr(part.call if isinstance(part, NetworkMaker) else part, "sample_form", None)
    forms = FORMS if wanted is None else (wanted,)
    faults: list[ScenarioError] = []
    for samples in forms:
        try:
            module = build_own(own, samples, seed=1)
        except ScenarioError as fault:
            faults.append(fault)
            if any(words in str(fault) for words in _OF_THE_FORM):
                continue  # it may be meant for samples of another form
            raise
        own_cost(module, samples, own)
        try:
            check_training(module, samples)
        except ModelFaultError as fault:
            raise calls.refused(str(fault)) from fault
        if calls.on_note is not None:
            calls.on_note(weights_text(module))
        return
    # That it computed something says more than that it could not.
    first = next((fault for fault in faults if _OF_THE_FORM[0] not in str(fault)), faults[0])
    if wanted is not None or _FORWARD not in str(first):
        raise first
    shapes = ", ".join(str(samples.input_shape) for samples in FORMS)
    raise ScenarioError(
        f"{first}; samples of the shapes {shapes} were tried: for others give it an attribute"
        " sample_form, or try it on those of a scenario: fleetsim validate SCENARIO --plugin"
    ) from first


class _Rehearsed(OwnModelKind):
    """Settings of the network in the rehearsal."""

    part: ClassVar[Any]
    words: ClassVar[str]

    kind: Literal["rehearsed"] = "rehearsed"

    @classmethod
    def of(cls, part: Any, said: str) -> _Rehearsed:
        """Return settings of one network or maker."""
        made: _Rehearsed = type("_RehearsedPart", (cls,), {"part": part, "words": said})()
        return made

    @property
    def said(self) -> str:
        """Name of the network in messages, as the user gave it."""
        return self.words

    def make(self, samples: SampleForm) -> object:
        """Return what the maker gives, or the network."""
        return network_of(self.part, samples, self.words)
