"""Figures and rules of the published implementations of Oort.

The defaults of `fleetsim.selectors.oort.OortSettings` are the paper's. The implementations differ
from it in more than figures:

* `is_scaled`: utilities are scaled to [0, 1] before the bonus is added (`scaled`), so that both
  have the same weight;
* `preferred_percentile`: T is a percentile of all known durations (`duration_at`), which the pacer
  moves (`paced_percentile`) in steps of percent; elsewhere T is a duration, and its steps seconds;
* `exploration_window`: explorers are drawn among so many times as many (`exploration_pool`).

`PLATO` has two more differences, which no setting covers: its number of exploited clients is
rounded up, and a client keeps the score of the round in which it last took part.

The functions named are those of `fleetsim.selectors.oort.equations`.

Sources: SymbioticLab/Oort@05a3aa1, SymbioticLab/FedScale@7ec441c (their command-line defaults and
`oort.py`); for `PLATO` the copy of TL-System/plato's server in zhiyuan-ning/GenerativeFL@785773b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class OortProfile:
    """Figures and rules of one implementation."""

    exploration_fraction: float
    """epsilon in round 1."""
    exploration_decay: float
    """Its factor from round to round."""
    exploration_min_fraction: float
    """Its floor."""
    cut_off_fraction: float
    """c."""
    clip_fraction: float
    """Quantile at which U is clipped; 1: not at all."""
    is_scaled: bool
    """True if utilities are scaled to [0, 1]."""
    preferred_percentile: float | None
    """Percentile of durations that T begins with; None: T is a duration."""
    preferred_duration_s: float | None
    """T at the beginning; None with a percentile, or where the first round shows it."""
    pacer_step: float | None
    """Step of the percentile in percent, or of T in seconds; None: the T of the beginning."""
    pacer_window_rounds: int
    """W."""
    pacer_every: str
    """Interval of the pacer's comparisons: `window` or `round`."""
    penalty_exponent: float
    """alpha."""
    over_commit: float | None
    """Clients selected for each one wanted; None: not given."""
    max_selections: int | None
    """Number of selections after which a client is barred from exploitation; None: no limit."""
    max_blacklist_fraction: float
    """At most this share of the fleet is barred; 1: no limit."""
    exploration_weights: str
    """`size` (times the penalty) or `uniform`."""
    exploration_window: float
    """Size of the pool of explorers, in times of their number; infinity: all clients."""

    def settings(self) -> dict[str, Any]:
        """Return the same as keys of `fleetsim.selectors.oort.OortSettings`."""
        has_percentile = self.preferred_percentile is not None
        has_window = math.isfinite(self.exploration_window)
        figures: dict[str, Any] = {
            "exploration_fraction": self.exploration_fraction,
            "exploration_decay": self.exploration_decay,
            "exploration_min_fraction": self.exploration_min_fraction,
            "exploration_weights": self.exploration_weights,
            "exploration_window": self.exploration_window if has_window else None,
            "cut_off_fraction": self.cut_off_fraction,
            "clip_fraction": self.clip_fraction,
            "scale_utilities": self.is_scaled,
            "penalty_exponent": self.penalty_exponent,
            "preferred_duration_s": self.preferred_duration_s,
            "preferred_percentile": self.preferred_percentile,
            "pacer_window_rounds": self.pacer_window_rounds,
            "pacer_every": self.pacer_every,
            "max_selections": self.max_selections,
            "max_blacklist_fraction": self.max_blacklist_fraction,
        }
        if self.pacer_step is not None:
            figures["pacer_step_percent" if has_percentile else "pacer_step_s"] = self.pacer_step
        return figures


OORT_REPO = OortProfile(
    exploration_fraction=0.9,
    exploration_decay=0.95,
    exploration_min_fraction=0.2,
    cut_off_fraction=0.7,
    clip_fraction=0.98,
    is_scaled=True,
    preferred_percentile=10.0,
    preferred_duration_s=None,
    pacer_step=5.0,
    pacer_window_rounds=20,
    pacer_every="window",
    penalty_exponent=2.0,
    over_commit=1.1,
    max_selections=None,
    max_blacklist_fraction=0.3,
    exploration_weights="size",
    exploration_window=5.0,
)
FEDSCALE = OortProfile(
    exploration_fraction=0.9,
    exploration_decay=0.98,
    exploration_min_fraction=0.3,
    cut_off_fraction=0.05,
    clip_fraction=0.9,
    is_scaled=True,
    preferred_percentile=30.0,
    preferred_duration_s=None,
    pacer_step=5.0,
    pacer_window_rounds=20,
    pacer_every="window",
    penalty_exponent=2.0,
    over_commit=1.3,
    max_selections=None,
    max_blacklist_fraction=0.3,
    exploration_weights="size",
    exploration_window=5.0,
)
PLATO = OortProfile(
    exploration_fraction=0.9,
    exploration_decay=1.0,
    exploration_min_fraction=0.9,
    cut_off_fraction=0.95,
    clip_fraction=1.0,
    is_scaled=False,
    preferred_percentile=None,
    preferred_duration_s=50.0,
    pacer_step=50.0,
    pacer_window_rounds=2,
    pacer_every="round",
    penalty_exponent=2.0,
    over_commit=None,
    # It bars clients selected more than 10 times.
    max_selections=11,
    max_blacklist_fraction=1.0,
    exploration_weights="uniform",
    exploration_window=math.inf,
)

Profile = Literal["paper", "oort_repo", "fedscale", "plato"]
"""Source of Oort's figures."""
PROFILES: dict[str, OortProfile] = {
    "oort_repo": OORT_REPO,
    "fedscale": FEDSCALE,
    "plato": PLATO,
}
"""All profiles by name, except the paper's, whose figures are the defaults of `OortSettings`."""
