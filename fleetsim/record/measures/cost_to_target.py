"""Rounds, time and energy until a run reaches an accuracy.

All are read from the rounds table: the first evaluated round whose accuracy is at least the target
decides. For a run that never reaches it they are None, not infinity or the end of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def rounds_to_accuracy(rounds: pd.DataFrame, target: float) -> int | None:
    """Return the number of the first evaluated round with accuracy >= target; None if none.

    Args:
        rounds: the rounds table, in its order.
        target: accuracy as a fraction, 0 < target <= 1.

    Raises:
        ValueError: the target is outside of that.
    """
    position = _first(rounds, target)
    return None if position is None else int(rounds["round"].iloc[position])


def time_to_accuracy(rounds: pd.DataFrame, target: float) -> float | None:
    """Return virtual seconds from the start to the end of that round; arguments as above."""
    position = _first(rounds, target)
    return None if position is None else float(rounds["finished_at_s"].iloc[position])


def energy_to_accuracy(rounds: pd.DataFrame, target: float) -> float | None:
    """Return joules of the whole fleet up to the end of that round; arguments as above."""
    position = _first(rounds, target)
    return None if position is None else float(rounds["energy_total_j"].iloc[position])


def _first(rounds: pd.DataFrame, target: float) -> int | None:
    if not 0.0 < target <= 1.0:
        raise ValueError(f"target must be a fraction in (0, 1], got {target!r}")
    # NaN, a round that was not evaluated, is never >= anything.
    reached = np.flatnonzero(rounds["accuracy"].to_numpy(dtype=np.float64) >= target)
    return int(reached[0]) if reached.size else None
