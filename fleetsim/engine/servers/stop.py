"""Rules that end a run, and the reasons that it reports."""

import math
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import State, StopReason
from fleetsim.schema.key_conditions import TRAINING, by_key
from fleetsim.schema.ranges import DurationS, EnergyJ, PositiveFraction, Rounds
from fleetsim.settings import Settings
from fleetsim.units import S_PER_DAY

MOST_ROUNDS = 100_000
"""Rounds after which a run without `stop.rounds` ends."""
MOST_WAIT_S = 28 * S_PER_DAY
"""Virtual time for which a server waits for eligible clients before the run ends: four weeks, so
that the record of an owner repeats."""
MOST_TASKS_PER_CLIENT = 20
FEWEST_TASKS, MOST_TASKS = 200, 5_000
"""Train tasks in a row without an update after which a run ends: 20 for each client of the fleet,
within these bounds. If one task in 500 delivers, 5 in 100,000 gaps between updates are as long."""
MOST_ROUNDS_WITHOUT = 1_000
"""Rounds in a row that aggregate nothing, after which a run ends."""
_FEW_TASKS = 20
"""Tasks without an update that end a run after `MOST_WAIT_S`: fewer may just take long."""
_REFUSALS_AT_ONCE = 100
"""Selections of no client in a row before the pauses between them grow."""
_YEAR_S = 365.0 * S_PER_DAY


class StopSettings(Settings):
    """Rules that end a run: the first that holds.

    A run also ends if its server has waited four weeks of virtual time for eligible clients, or
    gets no update any more (`WithoutUpdates`).
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


@dataclass(slots=True)
class WithoutUpdates:
    """Tasks and rounds since the last update, too many of which end a run."""

    num_clients: int
    tasks: int = 0
    rounds: int = 0
    since_s: float = 0.0
    """Moment of the first of these tasks, or of the last update that was delivered."""

    def end(self, num_tasks: int, *, num_delivered: int, now_s: float) -> None:
        """Take in tasks that have ended."""
        if num_delivered or not self.tasks:
            self.since_s = now_s
        self.tasks = 0 if num_delivered else self.tasks + num_tasks

    def close(self, *, aggregated: bool) -> None:
        """Take in a round that was closed."""
        self.rounds = 0 if aggregated else self.rounds + 1

    def reason(self, now_s: float) -> StopReason | None:
        """Return why the run need not go on, if so."""
        most = max(FEWEST_TASKS, min(MOST_TASKS, MOST_TASKS_PER_CLIENT * self.num_clients))
        waited_s = now_s - self.since_s
        if self.tasks >= most:
            message = f"{self.tasks:,} tasks in a row delivered no update, until {now_s:g} s"
        elif self.tasks >= _FEW_TASKS and waited_s > MOST_WAIT_S:
            message = (
                f"no update was delivered in {waited_s / S_PER_DAY:.3g} days, until {now_s:g} s,"
                f" by {self.tasks:,} tasks"
            )
        elif self.rounds >= MOST_ROUNDS_WITHOUT:
            message = (
                f"{self.rounds:,} rounds in a row got too few updates to aggregate, until"
                f" {now_s:g} s"
            )
        else:
            return None
        return StopReason("no_updates", f"{message}, so the run ended")

    def state(self) -> State:
        """Return everything that `restore` needs."""
        return {"counts": np.array([self.tasks, self.rounds]), "since_s": np.array(self.since_s)}

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.tasks, self.rounds = state["counts"].tolist()
        self.since_s = float(state["since_s"])


def pause_s(num_refusals: int) -> float:
    """Return seconds until a selector that chose none is asked again, ~2,000 times in 28 days."""
    return float(max(0, num_refusals - _REFUSALS_AT_ONCE))


def too_few_clients(
    *, now_s: float, since_s: float, change_s: float, minimum: int, num_eligible: int
) -> StopReason | None:
    """Return why a server need not wait for clients any longer, if so.

    It has waited since `since_s` for `minimum` clients, and more may come at `change_s`. If enough
    are eligible, it waits for a selector that selected none of them.
    """
    has_waited, is_last = now_s - since_s > MOST_WAIT_S, change_s == math.inf
    if not (has_waited or is_last):
        return None
    days = f"{MOST_WAIT_S / S_PER_DAY:g} days, until {now_s:g} s"
    see = "server.eligibility and server.minimum_reports"
    if num_eligible >= minimum:
        message = f"the selector selects none of {num_eligible} eligible client(s)"
        message += f", in {days}" if has_waited else f" at {now_s:g} s, and no others will come"
        see = "server.selector"
    elif has_waited:
        message = f"waited {days}, for {minimum} eligible client(s) at once; {num_eligible} are"
    else:
        message = (
            f"only {num_eligible} of the {minimum} client(s) that a round needs are eligible at"
            f" {now_s:g} s, and too few others ever will be"
        )
    return StopReason("no_clients", f"{message}; see {see}")
