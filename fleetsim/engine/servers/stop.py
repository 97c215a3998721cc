"""Rules that end a run, and the reasons that it reports."""

from __future__ import annotations

import math

from fleetsim.contracts import StopReason
from fleetsim.schema.effects import TRAINING, by_key
from fleetsim.schema.ranges import DurationS, EnergyJ, PositiveFraction, Rounds
from fleetsim.settings import Settings
from fleetsim.units import S_PER_DAY

MOST_ROUNDS = 100_000
"""Rounds after which a run without `stop.rounds` ends."""
MOST_WAIT_S = 28 * S_PER_DAY
"""Virtual time for which a server waits for eligible clients before the run ends: four weeks, so
that the record of an owner repeats."""
_YEAR_S = 365.0 * S_PER_DAY


class StopSettings(Settings):
    """Rules that end a run: the first that holds.

    A run also ends if its server has waited four weeks of virtual time for eligible clients.
    """

    acts_if = by_key(accuracy=TRAINING)

    rounds: Rounds | None = None
    """Number of rounds; null: 100,000, if no other rule ends the run before."""
    accuracy: PositiveFraction | None = None
    """Accuracy whose first evaluated round ends the run."""
    time_s: DurationS = _YEAR_S
    """Virtual time at which the run ends and a running round is cut off; a year by default."""
    energy_j: EnergyJ | None = None
    """Total joules of the fleet whose first round ends the run."""

    @property
    def ends_without_accuracy(self) -> bool:
        """True if a rule other than `accuracy` was set, besides the bounds that every run has."""
        return self.rounds is not None or self.energy_j is not None or self.time_s < _YEAR_S

    @property
    def last_round(self) -> int:
        """Round after which the run ends if no other rule ends it before."""
        return MOST_ROUNDS if self.rounds is None else self.rounds

    def after_round(
        self, *, round_: int, accuracy: float | None, energy_total_j: float
    ) -> StopReason | None:
        """Return the reason of the rule that holds after a round, if any."""
        if self.accuracy is not None and accuracy is not None and accuracy >= self.accuracy:
            return StopReason(
                "accuracy", f"accuracy {accuracy:.4f} reached {self.accuracy:g} in round {round_}"
            )
        if self.energy_j is not None and energy_total_j >= self.energy_j:
            return StopReason(
                "energy_j", f"{energy_total_j:.6g} J spent, the limit is {self.energy_j:g} J"
            )
        if self.rounds is not None and round_ >= self.rounds:
            return StopReason("rounds", f"{self.rounds} rounds done")
        if round_ >= self.last_round:
            return StopReason(
                "rounds",
                f"{MOST_ROUNDS} rounds done, the most of a run without stop.rounds; set it for"
                " more",
            )
        return None

    def time_is_up(self, *, num_waiting_for: int) -> StopReason:
        """Return the reason `time_s`; `num_waiting_for` clients were missing (0: a round ran)."""
        text = f"virtual time {self.time_s:g} s is up"
        if num_waiting_for:
            text += f" while waiting for {num_waiting_for} eligible client(s)"
        return StopReason("time_s", text)


def too_few_clients(
    *, now_s: float, since_s: float, change_s: float, minimum: int, num_eligible: int
) -> StopReason | None:
    """Return why a server need not wait for clients any longer, if so.

    It has waited since `since_s` for `minimum` clients, and their number changes next at
    `change_s`.
    """
    if now_s - since_s > MOST_WAIT_S:
        says = (
            f"waited {MOST_WAIT_S / S_PER_DAY:g} days, until {now_s:g} s, for {minimum} eligible"
            f" client(s) at once; {num_eligible} are"
        )
    elif change_s == math.inf:
        says = (
            f"only {num_eligible} of the {minimum} client(s) that a round needs are eligible at"
            f" {now_s:g} s, and no further client will become eligible"
        )
    else:
        return None
    return StopReason("no_clients", f"{says}; see server.eligibility and server.minimum_reports")
