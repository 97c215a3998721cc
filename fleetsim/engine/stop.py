"""When a run ends, and how it says so."""

from __future__ import annotations

from fleetsim.contracts import StopReason
from fleetsim.ranges import DurationS, EnergyJ, PositiveFraction, Rounds
from fleetsim.settings import Settings


class StopSettings(Settings):
    """When a run ends: whichever comes first."""

    rounds: Rounds | None = None
    """After so many rounds."""
    accuracy: PositiveFraction | None = None
    """After the first evaluated round that reaches it."""
    time_s: DurationS = 31_536_000.0
    """At this virtual time; a running round is cut off. A year unless said otherwise."""
    energy_j: EnergyJ | None = None
    """After the first round that brings the fleet's total to it."""

    def after_round(
        self, *, round_: int, accuracy: float | None, energy_total_j: float
    ) -> StopReason | None:
        """The rule that holds after a round, if any."""
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
        return None

    def time_is_up(self, *, num_waiting_for: int) -> StopReason:
        """The clock reached `time_s`; `num_waiting_for` clients were missing (0: a round ran)."""
        text = f"virtual time {self.time_s:g} s is up"
        if num_waiting_for:
            text += f" while waiting for {num_waiting_for} eligible client(s)"
        return StopReason("time_s", text)


def nobody_will_come(*, now_s: float, minimum: int, num_eligible: int) -> StopReason:
    """The fleet will never change again, and too few clients are eligible."""
    return StopReason(
        "no_clients",
        f"only {num_eligible} of the {minimum} client(s) that a round needs are eligible at"
        f" {now_s:g} s, and nobody will ever become so; see server.eligibility and"
        " server.minimum_reports",
    )
