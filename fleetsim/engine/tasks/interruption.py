"""Interruptions of tasks: settings, pause policy and accumulated waiting time.

docs/models/interruption.md has the rules and the sources.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Purpose, WorkKind
from fleetsim.engine.eligibility import Absences
from fleetsim.engine.tasks.phase_segments import Phase
from fleetsim.engine.tasks.task import Task
from fleetsim.fleet.energy import Fraction
from fleetsim.schema.ranges import DelayS, DurationS
from fleetsim.settings import Settings

Patience = DurationS
Transfers = Literal["resume", "restart"]


class LoseSettings(Settings):
    """Loss of a task at its first interruption."""

    kind: Literal["lose"] = "lose"


class PauseSettings(Settings):
    """Suspension of a task until the client is eligible again; it then continues."""

    kind: Literal["pause"] = "pause"
    max_pause_s: Patience = 3600.0
    """Longest total suspension; a task that is suspended for longer is lost."""
    resume_s: DelayS = 0.0
    """Extra computation of each resumption, in seconds of the otherwise idle device, such as to
    load a checkpoint."""
    transfers: Transfers = "resume"
    """Continuation of interrupted transfers after their last byte, or a new attempt."""


class PartialSettings(Settings):
    """Upload of what an interrupted training has done so far."""

    kind: Literal["partial"] = "partial"
    min_fraction: Fraction = 0.0
    """Smallest share of the local steps; with less, or without a single step, a task is lost."""
    upload_when: Literal["online", "eligible"] = "online"
    """Condition of the upload: the device is reachable, or it meets the eligibility rule."""
    max_pause_s: Patience = 3600.0
    """Longest total wait of an upload; one that waits for longer is lost."""
    transfers: Transfers = "resume"
    """Continuation of interrupted uploads after their last byte, or a new attempt."""
    weight: Literal["samples", "processed"] = "samples"
    """Weight of a part in the aggregation: that of a whole update, or its completed share of it."""


InterruptionSettings = Annotated[
    LoseSettings | PauseSettings | PartialSettings, Field(discriminator="kind")
]


class PausePolicy:
    """Pause policy and accumulated waiting time of n tasks that may survive interruptions."""

    def __init__(
        self, settings: PauseSettings | PartialSettings, absences: Absences, tasks: Sequence[Task]
    ) -> None:
        self.settings = settings
        self._absences = absences
        self._waited_s = np.zeros(len(tasks))
        self.hands_in_part: BoolArray = np.array(
            [
                isinstance(settings, PartialSettings)
                and task.purpose is Purpose.TRAIN
                and task.work.kind is WorkKind.TRAIN
                for task in tasks
            ],
            dtype=np.bool_,
        )

    @property
    def resume_s(self) -> float:
        """Seconds of computation that a resumption costs."""
        return self.settings.resume_s if isinstance(self.settings, PauseSettings) else 0.0

    def tolerates(self, rows: IntArray, phase: Phase) -> BoolArray:
        """Return the tasks [k] that survive an interruption in a phase, as a mask."""
        if isinstance(self.settings, PauseSettings):
            return np.ones(rows.size, dtype=np.bool_)
        return self.hands_in_part[rows] & (phase == Phase.UPLOAD)

    def begin(
        self, rows: IntArray, phase: Phase, at_s: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Interrupt tasks; return ends of pauses, next interruptions, which are lost then [k]."""
        back_s, gone_s = self._absences.next_after(rows, at_s, needs_rule=self._needs_rule(phase))
        gives_up_s = at_s + (self.settings.max_pause_s - self._waited_s[rows])
        is_lost = back_s > gives_up_s
        until_s = np.where(is_lost, gives_up_s, back_s)
        self._waited_s[rows] += until_s - at_s
        return until_s, gone_s, is_lost

    def _needs_rule(self, phase: Phase) -> bool:
        return not (
            isinstance(self.settings, PartialSettings)
            and phase == Phase.UPLOAD
            and self.settings.upload_when == "online"
        )
