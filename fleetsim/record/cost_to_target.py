"""When a run got as good as wanted, and what it had cost by then.

All are read off the rounds table: the first evaluated round whose accuracy is at least the target
decides. A run that never gets there has no such time: None, never infinity or the run's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def rounds_to_accuracy(rounds: pd.DataFrame, target: float) -> int | None:
    """Number of the first evaluated round with accuracy >= target; None if there is none.

    Args:
        rounds: the rounds table, in its order.
        target: accuracy as a fraction, 0 < target <= 1.

    Raises:
        ValueError: the target is outside of that.
    """
    position = _first(rounds, target)
    return None if position is None else int(rounds["round"].iloc[position])


def time_to_accuracy(rounds: pd.DataFrame, target: float) -> float | None:
    """Virtual seconds from the run's start to the end of that round; arguments as above.

    Raises:
        ValueError: the target is not in (0, 1].
    """
    position = _first(rounds, target)
    return None if position is None else float(rounds["finished_at_s"].iloc[position])


def energy_to_accuracy(rounds: pd.DataFrame, target: float) -> float | None:
    """Joules that the whole fleet spent up to the end of that round; arguments as above.

    Raises:
        ValueError: the target is not in (0, 1].
    """
    position = _first(rounds, target)
    return None if position is None else float(rounds["energy_total_j"].iloc[position])


def _first(rounds: pd.DataFrame, target: float) -> int | None:
    if not 0.0 < target <= 1.0:
        raise ValueError(f"target must be a fraction in (0, 1], got {target!r}")
    # NaN, a round that was not evaluated, is never >= anything.
    reached = np.flatnonzero(rounds["accuracy"].to_numpy(dtype=np.float64) >= target)
    return int(reached[0]) if reached.size else None
