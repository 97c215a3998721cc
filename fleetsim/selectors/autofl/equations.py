"""Equations of AutoFL: states of a table, the reward of a round, the update, and the choice.

A table has a value Q(s, a) for each state s of a client and each clock level a. A state has ten
parts in the bins of `BOUNDS`: convolutions, fully connected and recurrent layers of the model,
batch size, local epochs, participants of a round, processor and memory in use, rate of the link,
and share of the labels that the client has. These are 62,208 states. With A the accuracy after a
round in per cent and A' that before it, E_k the energy of client k and E that of the cohort,

    R_k = A - 100                                          if A < A'
    R_k = -E - E_k + alpha A + beta (A - A')               otherwise
    Q(s, a) <- Q(s, a) + gamma (R_k + mu max over b of Q(s', b) - Q(s, a))

where s' is the client's next state.

Secondary source: Kim, Wu, "AutoFL: enabling heterogeneity-aware energy efficient federated
learning", MICRO 2021 (arXiv 2107.08147), whose full text was not at hand, by its re-implementation
li1553770945/RL-Federal-Learning@8e0cb93.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.selectors.argument_checks import require_all, require_lengths

_ABOVE_ZERO = math.ulp(0.0)
BOUNDS: Final = {
    "num_conv": (10.0, 20.0, 30.0),
    "num_fc": (10.0,),
    "num_rc": (5.0, 10.0),
    "batch_size": (8.0, 32.0),
    "epochs": (5.0, 10.0),
    "participants": (10.0, 50.0),
    "cpu_percent": (_ABOVE_ZERO, 25.0, 75.0),
    "memory_percent": (_ABOVE_ZERO, 25.0, 75.0),
    "rate_mbit_per_s": (40.0,),
    "coverage_percent": (25.0, 100.0),
}
"""Lower bounds of all bins but the first, by part of a state."""
NUM_STATES: Final = math.prod(len(bounds) + 1 for bounds in BOUNDS.values())
"""Number of states of a table."""


def state_number(**parts: ArrayLike) -> IntArray:
    """Return the number of the state of each client [n], from 0; equal bins give equal numbers.

    The ten parts have the names of `BOUNDS`; each is a number or one per client [n].

    Source: AutoFL (Kim, Wu, MICRO 2021), the states of its table 1, by a re-implementation.
    """
    number: IntArray = np.zeros(1, dtype=np.int64)
    for name, bounds in BOUNDS.items():
        values = np.atleast_1d(np.asarray(parts[name], dtype=np.float64))
        require_all(f"{name} must not be negative", values, values >= 0.0)
        number = (len(bounds) + 1) * number + np.searchsorted(bounds, values, side="right")
    return number


def category(flop_per_s: FloatArray) -> IntArray:
    """Return the performance category of each device [n]: the rates of one lie within a doubling.

    >>> category(np.array([1.0, 15.5e9, 15.8e9, 42.9e9, 340e9])).tolist()
    [0, 33, 33, 35, 38]

    Source: fleetsim, after the performance categories of AutoFL (Kim, Wu, MICRO 2021).
    """
    is_good = np.isfinite(flop_per_s) & (flop_per_s >= 1.0)
    require_all("flop_per_s must be finite and at least 1", flop_per_s, is_good)
    # The exponent of x = m 2^e with m in [0.5, 1), exact at powers of two.
    exponents: IntArray = np.frexp(flop_per_s)[1].astype(np.int64) - 1
    return exponents


def rewards(
    accuracy: float,
    before: float,
    local_j: FloatArray,
    global_j: float,
    *,
    accuracy_weight: float = 1.0,
    gain_weight: float = 10.0,
    unit_j: float = 1.0,
) -> FloatArray:
    """Return R of each client that delivered [n].

    Accuracies are from 0 to 1; `local_j` are joules of each client's task [n], `global_j` those of
    the cohort (E), `unit_j` those that count as one. The weights are alpha and beta.

    60 % after 50 %, with 4 J and 20 J of clients of a cohort with a mean of 12 J:

    >>> rewards(0.6, 0.5, np.array([4.0, 20.0]), 12.0).round(9).tolist()
    [144.0, 128.0]

    Source: AutoFL (Kim, Wu, MICRO 2021), its reward, by a re-implementation.
    """
    both = np.array([accuracy, before])
    require_all("accuracies must be in [0, 1]", both, (both >= 0.0) & (both <= 1.0))
    if accuracy < before:
        return np.full(local_j.shape, 100.0 * accuracy - 100.0)
    gained = accuracy_weight * 100.0 * accuracy + gain_weight * 100.0 * (accuracy - before)
    reward: FloatArray = gained - (global_j + local_j) / unit_j
    return reward


def updated(
    value: float, reward: float, best_next: float, *, learning_rate: float, discount: float
) -> float:
    """Return the new Q(s, a).

    The learning rate gamma weighs what was just seen, and the discount mu the next state.

    >>> updated(10.0, 20.0, 50.0, learning_rate=0.9, discount=0.1)
    23.5

    Source: AutoFL (Kim, Wu, MICRO 2021), its algorithm 1, by a re-implementation.
    """
    return value + learning_rate * (reward + discount * best_next - value)


def chosen_levels(
    values: FloatArray, uniforms: FloatArray, drawn: IntArray, exploration: float
) -> IntArray:
    """Return the level of each client: that of the largest value, or a random one to explore [n].

    Values are Q of every level in the client's state [n, A]; of equal ones the first counts. A
    client whose uniform in [0, 1) is below epsilon takes the level drawn [n].

    >>> values = np.array([[1.0, 3.0, 3.0], [0.0, 0.0, 0.0]])
    >>> chosen_levels(values, np.array([0.1, 0.05]), np.array([2, 2]), 0.1).tolist()
    [1, 2]

    Source: AutoFL (Kim, Wu, MICRO 2021), epsilon-greedy, by a re-implementation.
    """
    require_lengths(values.shape[0], uniforms=uniforms, drawn=drawn)
    return np.where(uniforms < exploration, drawn, values.argmax(axis=1)).astype(np.int64)
