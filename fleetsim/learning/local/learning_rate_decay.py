"""How the clients' learning rate falls from round to round.

The server says with which rate a task is to train when it sends the task out, by the number of the
round.
"""

from __future__ import annotations

from bisect import bisect_left

from fleetsim.learning.local.settings import (
    ExponentialDecaySettings,
    NoDecaySettings,
    SgdSettings,
    StepDecaySettings,
)


def learning_rate_at(sgd: SgdSettings, round_: int) -> float:
    """Learning rate of a task that is sent out in a round, 1 for the first; 0 is before it.

    >>> halved = StepDecaySettings(after_rounds=(150, 300), factor=0.5)
    >>> sgd = SgdSettings(learning_rate=0.004, decay=halved)
    >>> [learning_rate_at(sgd, round_) for round_ in (1, 150, 151, 301)]
    [0.004, 0.004, 0.002, 0.001]
    """
    decay = sgd.decay
    match decay:
        case NoDecaySettings():
            return sgd.learning_rate
        case StepDecaySettings():
            num_times = bisect_left(decay.after_rounds, round_)
        case ExponentialDecaySettings():
            num_times = max(round_ - 1, 0) // decay.every_rounds
    return sgd.learning_rate * decay.factor**num_times
