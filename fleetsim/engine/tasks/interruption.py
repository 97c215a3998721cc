"""What becomes of a task whose owner takes the device away, and until when it waits.

An interruption is the moment at which a client stops being eligible in mid-task by its owner's
doing. The server says in its configuration what clients do then: they lose the task, pause it, or
hand in what they have done. docs/models/interruption.md has the rules and the sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Purpose, WorkKind
from fleetsim.engine.eligibility import Absences
from fleetsim.engine.tasks.phase_segments import Stage
from fleetsim.engine.tasks.task import Task
from fleetsim.fleet.energy import Fraction
from fleetsim.schema.ranges import DelayS, DurationS
from fleetsim.settings import Settings

Patience = DurationS
Transfers = Literal["resume", "restart"]


class LoseSettings(Settings):
    """The task is lost at its first interruption."""

    kind: Literal["lose"] = "lose"


class PauseSettings(Settings):
    """The task is suspended until the client is eligible again, and goes on from where it was."""

    kind: Literal["pause"] = "pause"
    max_pause_s: Patience = 3600.0
    """A task that has been suspended for so long in all is lost."""
    resume_s: DelayS = 0.0
    """Computing, in seconds of the otherwise idle device, that each resumption of a computation
    costs, such as to load a checkpoint."""
    transfers: Transfers = "resume"
    """Interrupted transfers go on after the bytes that are through, or begin anew."""


class PartialSettings(Settings):
    """Training stops, and what it has done by then is uploaded."""

    kind: Literal["partial"] = "partial"
    min_fraction: Fraction = 0.0
    """With less than this share of its local steps, or without a single one, a task is lost."""
    upload_when: Literal["online", "eligible"] = "online"
    """The upload needs the device to be reachable, or all that eligibility asks for."""
    max_pause_s: Patience = 3600.0
    """An upload that has waited for so long in all is lost."""
    transfers: Transfers = "resume"
    """Interrupted uploads go on after the bytes that are through, or begin anew."""
    weight: Literal["samples", "processed"] = "samples"
    """A part counts in the aggregation like a whole update, or as much less as it is smaller."""


InterruptionSettings = Annotated[
    LoseSettings | PauseSettings | PartialSettings, Field(discriminator="kind")
]


NOT_SHARED = (
    "lets transfers go on later, but those that share links are laid out for all tasks of a round"
    " at once; leave fleet.shared_links out, or use server.interruption.kind = 'lose'"
)
"""Why a fleet with shared links cannot have its tasks go on."""


class Waiting:
    """How n tasks that need not be lost bear interruptions; it remembers how long they waited."""

    def __init__(
        self,
        settings: PauseSettings | PartialSettings,
        absences: Absences,
        tasks: Sequence[Task],
    ) -> None:
        self.settings = settings
        self._absences = absences
        self._waited_s = np.zeros(len(tasks))
        self.hands_in: BoolArray = np.array(
            [
                isinstance(settings, PartialSettings)
                and task.purpose is Purpose.TRAIN
                and task.work.kind is WorkKind.TRAIN
                for task in tasks
            ],
            dtype=np.bool_,
        )
        """Whose training is handed in in part [n]."""

    @property
    def resume_s(self) -> float:
        """Computing that a resumption costs."""
        return self.settings.resume_s if isinstance(self.settings, PauseSettings) else 0.0

    def bears(self, rows: IntArray, stage: Stage) -> BoolArray:
        """Which tasks [k] outlive an interruption in a stage."""
        if isinstance(self.settings, PauseSettings):
            return np.ones(rows.size, dtype=np.bool_)
        return self.hands_in[rows] & (stage == Stage.UPLOAD)

    def begin(
        self, rows: IntArray, stage: Stage, at_s: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Tasks are interrupted at `at_s` [k], all [k].

        Returns:
            (until when they wait, when they are interrupted next, whether they are lost by then).
        """
        back_s, gone_s = self._absences.next_after(rows, at_s, needs_rule=self._needs_rule(stage))
        gives_up_s = at_s + (self.settings.max_pause_s - self._waited_s[rows])
        is_lost = back_s > gives_up_s
        until_s = np.where(is_lost, gives_up_s, back_s)
        self._waited_s[rows] += until_s - at_s
        return until_s, gone_s, is_lost

    def _needs_rule(self, stage: Stage) -> bool:
        """Whether a stage needs all that eligibility asks for, and not reachability alone."""
        return not (
            isinstance(self.settings, PartialSettings)
            and stage == Stage.UPLOAD
            and self.settings.upload_when == "online"
        )
