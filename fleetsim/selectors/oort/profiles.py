"""Values and rules of the published implementations of Oort.

The defaults of `fleetsim.selectors.oort.OortSettings` are the paper's. The implementations differ
from it in more than values:

* `scale_utilities`: utilities are scaled to [0, 1] before the bonus is added (`scaled`), so that
  both have the same weight;
* `preferred_percentile`: T is a percentile of all known durations (`duration_at`), which the pacer
  moves (`paced_percentile`) in steps of percent; elsewhere T is a duration, and its steps seconds;
* `exploration_window`: explorers are drawn among so many times as many (`exploration_pool`).

`plato` has two more differences, which no setting covers: its number of exploited clients is
rounded up, and a client keeps the score of the round in which it last took part.

The functions named are those of `fleetsim.selectors.oort.equations`.

Sources: SymbioticLab/Oort@05a3aa1, SymbioticLab/FedScale@7ec441c (their command-line defaults and
`oort.py`); for `plato` the copy of TL-System/plato's server in zhiyuan-ning/GenerativeFL@785773b.
"""

from typing import Any, Literal

_AUTHORS: dict[str, Any] = {
    "exploration_weights": "size",
    "exploration_window": 5.0,
    "scale_utilities": True,
    "penalty_exponent": 2.0,
    "preferred_duration_s": None,
    "pacer_step_percent": 5.0,
    "pacer_window_rounds": 20,
    "pacer_every": "window",
    "max_selections": None,
    "max_blacklist_fraction": 0.3,
}
"""Values that both implementations of the authors share."""

Profile = Literal["paper", "oort_repo", "fedscale", "plato"]
"""Source of Oort's values."""
PROFILES: dict[str, dict[str, Any]] = {
    "oort_repo": _AUTHORS
    | {
        "exploration_fraction": 0.9,
        "exploration_decay": 0.95,
        "exploration_min_fraction": 0.2,
        "cut_off_fraction": 0.7,
        "clip_fraction": 0.98,
        "preferred_percentile": 10.0,
    },
    "fedscale": _AUTHORS
    | {
        "exploration_fraction": 0.9,
        "exploration_decay": 0.98,
        "exploration_min_fraction": 0.3,
        "cut_off_fraction": 0.05,
        "clip_fraction": 0.9,
        "preferred_percentile": 30.0,
    },
    "plato": {
        "exploration_fraction": 0.9,
        "exploration_decay": 1.0,
        "exploration_min_fraction": 0.9,
        "exploration_weights": "uniform",
        "exploration_window": None,
        "cut_off_fraction": 0.95,
        "clip_fraction": 1.0,
        "scale_utilities": False,
        "penalty_exponent": 2.0,
        "preferred_percentile": None,
        "preferred_duration_s": 50.0,
        "pacer_step_s": 50.0,
        "pacer_window_rounds": 2,
        "pacer_every": "round",
        # It bars clients selected more than 10 times.
        "max_selections": 11,
        "max_blacklist_fraction": 1.0,
    },
}
"""Keys of `OortSettings` by profile; the paper's values are the defaults of `OortSettings`."""
