"""Predefined sets of clients: the draw of one set, and the order that fills in missing members.

The sets form a circle. Random selection from sets draws one of them uniformly; round-robin takes
them in turn. In both cases the choice is the first K available clients of that set and, where
members are missing, of the sets after it (`fleetsim.selectors.baselines.round_robin.take_turn`).

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection", whose random baseline is once said to choose clients and once one of predefined sets.
"""

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import IntArray


def drawn_set(num_sets: int, uniform: float) -> int:
    """Return the index of the set that a uniform variable in [0, 1) draws, all equally likely.

    >>> drawn_set(4, 0.0), drawn_set(4, 0.74), drawn_set(4, 0.76)
    (0, 2, 3)
    """
    return int(uniform * num_sets)


def sets_in_line(sets: Sequence[IntArray], turn: int) -> IntArray:
    """Return the ids of all sets in sequence, from number `turn` (0, 1, ...; modulo their number).

    A client that is in several sets occurs as many times.

    >>> sets_in_line([np.array([4, 1]), np.array([2]), np.array([1, 3])], 4).tolist()
    [2, 1, 3, 4, 1]
    """
    first = turn % len(sets)
    return np.concatenate([*sets[first:], *sets[:first]])
