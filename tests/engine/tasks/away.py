"""Slow reference for pauses: one task, simulated second by second."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fleetsim.contracts import Outcome


class Ended(NamedTuple):
    """Result of a task: seconds in each phase, and transfer segments, each followed by a tail."""

    outcome: Outcome
    end_s: float
    seconds: tuple[float, ...]
    num_pauses: int
    paused_s: float
    num_transfers: int


def walked(
    there: Mapping[int, bool],
    needs_s: Sequence[float],
    max_pause_s: int,
    resume_s: float,
    restarts: bool,
    deadline_s: int,
) -> Ended:
    """Simulate download, computation and upload that need `needs_s` seconds each.

    `there` says from which seconds on the device is available, or is not.
    """
    is_there, waits, has_computed, moves = True, False, False, False
    left, seconds = list(needs_s), [0.0, 0.0, 0.0]
    phase = num_pauses = num_transfers = paused_s = 0
    loading_s = 0.0

    def ended(outcome: Outcome, end_s: float) -> Ended:
        return Ended(outcome, end_s, tuple(seconds), num_pauses, paused_s, num_transfers)

    for second in range(deadline_s + 1):
        is_there = there.get(second, is_there)
        if not is_there and paused_s == max_pause_s:
            return ended(Outcome.OFFLINE, second)
        if second == deadline_s:
            return ended(Outcome.LATE, second)
        if not is_there:
            if not waits:
                waits, moves = True, False
                num_pauses += 1
                if phase != 1 and restarts:
                    left[phase] = needs_s[phase]
            paused_s += 1
            continue
        if waits:
            waits = False
            loading_s = resume_s if phase == 1 and has_computed else 0.0
        budget_s = 1.0
        while budget_s > 0.0:
            spent_s = min(budget_s, loading_s)
            loading_s -= spent_s
            if spent_s == 0.0:
                spent_s = min(budget_s, left[phase])
                left[phase] -= spent_s
                if phase == 1:
                    has_computed = True
                elif not moves:
                    moves = True
                    num_transfers += 1
            seconds[phase] += spent_s
            budget_s -= spent_s
            if left[phase] <= 1e-9 and loading_s == 0.0:
                moves = False
                phase += 1
                if phase == 3:
                    return ended(Outcome.DELIVERED, second + 1.0 - budget_s)
    raise AssertionError("a task ends by its deadline")
