"""Rounds, time and energy until a run reaches an accuracy; None for a run that never does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 1e-12


def rounds_to_accuracy(rounds: pd.DataFrame, target: float) -> int | None:
    """Return the number of the first evaluated round with accuracy >= target; None if none."""
    position = first_reached(rounds, target)
    return None if position is None else int(rounds["round"].iloc[position])


def time_to_accuracy(rounds: pd.DataFrame, target: float) -> float | None:
    """Return virtual seconds from the start to the end of that round; arguments as above."""
    position = first_reached(rounds, target)
    return None if position is None else float(rounds["finished_at_s"].iloc[position])


def energy_to_accuracy(rounds: pd.DataFrame, target: float) -> float | None:
    """Return joules of the whole fleet up to the end of that round; arguments as above."""
    position = first_reached(rounds, target)
    return None if position is None else float(rounds["energy_total_j"].iloc[position])


def first_reached(rounds: pd.DataFrame, target: float, *, smooth_rounds: int = 1) -> int | None:
    """Return the position of the first row whose accuracy is at least the target; None if none.

    With `smooth_rounds` the mean over that many evaluated rounds counts, the row's own and those
    before it. Rows before there are as many do not count.
    """
    if not 0.0 < target <= 1.0:
        raise ValueError(f"target must be a fraction in (0, 1], got {target!r}")
    accuracy = rounds["accuracy"].to_numpy(dtype=np.float64)
    # NaN, a round that was not evaluated, is never >= anything.
    evaluated = np.flatnonzero(~np.isnan(accuracy))
    if smooth_rounds > 1:
        if evaluated.size < smooth_rounds:
            return None
        windows = np.lib.stride_tricks.sliding_window_view(accuracy[evaluated], smooth_rounds)
        # A mean that equals the target by hand must not miss it by rounding.
        means, rows = windows.mean(axis=1) * (1.0 + _ROUNDING), evaluated[smooth_rounds - 1 :]
    else:
        means, rows = accuracy[evaluated], evaluated
    reached = rows[means >= target]
    return int(reached[0]) if reached.size else None
