"""Settings of the training on the host, without torch."""

from __future__ import annotations

from typing import Literal

from fleetsim.schema.effects import TRAINING, by_key
from fleetsim.settings import Settings

TrainerKind = Literal["serial", "stacked", "channels-last", "vectorised"]


class TrainerSettings(Settings):
    """How the host computes what the clients train; never a matter of virtual time."""

    acts_if = by_key(
        kind=TRAINING,
        precision=TRAINING,
    )

    kind: Literal["auto"] | TrainerKind = "auto"
    """serial: one client after the other, the plain reference; stacked: many clients at once, for
    logistic, svm and 2nn; channels-last: one after the other, for networks on images; vectorised:
    many at once, for all but lstm; auto: the fastest that was measured. They differ by rounding."""
    precision: Literal["float32", "mixed"] = "float32"
    """mixed: bfloat16 for the products of forward and backward passes, float32 for the weights; for
    vectorised training, meant for cuda devices."""
