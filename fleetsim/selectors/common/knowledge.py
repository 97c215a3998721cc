"""What each selector must know, and whether a server in the world could have it.

One entry for every kind, and for those settings of it that change what is asked or known. The
price list of docs/selectors.md is made from these and from runs;
`tests/selectors/common/test_knowledge.py` holds that no kind is missing.

Four words say whether a selector may be used for real:

* `yes`: the server learns nothing of single clients' samples but their number;
* `private`: it learns what single clients' samples do to a model: losses, accuracies, gradients or
  single updates. An aggregation that shows the server sums alone (secure aggregation) hides these;
* `small`: the host's memory or time grows faster than the fleet, besides what may be private;
* `oracle`: it needs what nobody can know before the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Use = Literal["yes", "private", "small", "oracle"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a selector wants of the world."""

    knows: str
    """What the server must know; n_k are the samples of client k."""
    use: Use
    because: str
    set_up_choices: int = 0
    """First choices whose probes are asked once: what is asked later is asked again and again."""
    square_byte: int = 0
    """Bytes of the largest arrays over pairs of clients, for each pair; 0: there are none."""
    has_sets: bool = False
    """Whether it lists all sets of clients, of which there are C(N, K)."""


_DECLARED = "clients declare n_k; who overstates it is chosen more often"
_PROBED_LOSS = "the server is told the loss of single clients' samples, also of those not chosen"
_COHORT_LOSS = "the server is told the loss of every chosen client's samples"
_OORT = Demand(
    "n_k; root mean square losses and durations of its cohorts",
    "private",
    f"{_COHORT_LOSS}; no message of its own",
)
_ARMS = Demand(
    "accuracies of everybody after every slot",
    "small",
    "all C(N, K) sets are listed, a million at most; accuracies of single clients are told",
    has_sets=True,
)
_GRADIENTS = "the server holds every client's {} and their distances, 4 N P + 8 N^2 byte"

DEMANDS: Mapping[str, Mapping[str, Demand]] = {
    "random": {
        "weights: uniform": Demand("nothing", "yes", "nothing is asked, nothing is kept"),
        "weights: size": Demand("n_k", "yes", _DECLARED),
    },
    "round-robin": {"": Demand("nothing", "yes", "nothing is asked, a place in line is kept")},
    "fixed": {
        "": Demand(
            "whom to take",
            "oracle",
            "which clients are the right ones shows after a run; a mere list of devices is real",
        )
    },
    "power-of-choice": {
        "variant: pow-d": Demand("n_k; losses of d candidates", "private", _PROBED_LOSS),
        "variant: cpow-d": Demand(
            "n_k; losses of d candidates on a mini-batch", "private", _PROBED_LOSS
        ),
        "variant: rpow-d": Demand("n_k; losses of its cohorts", "private", _COHORT_LOSS),
    },
    "oort": {f"profile: {name}": _OORT for name in ("paper", "oort_repo", "fedscale", "plato")},
    "afl": {
        "": Demand(
            "n_k; everybody's loss once, then those of its cohorts",
            "private",
            _PROBED_LOSS,
            set_up_choices=1,
        )
    },
    "divfl": {
        "refresh: lazy": Demand(
            "everybody's gradient, those of its cohorts anew",
            "small",
            _GRADIENTS.format("gradient"),
            set_up_choices=1,
            square_byte=8,
        ),
        "refresh: ideal": Demand(
            "everybody's gradient, anew for each choice",
            "small",
            _GRADIENTS.format("gradient"),
            square_byte=8,
        ),
        "vectors: update": Demand(
            "everybody's update once, then those of its cohorts",
            "small",
            _GRADIENTS.format("update"),
            set_up_choices=1,
            square_byte=8,
        ),
    },
    "fedcor": {
        "": Demand(
            "n_k; everybody's loss in the warm-up, later two at a time",
            "small",
            "a covariance over pairs of clients, O(K N^2) a choice; everybody's losses are told",
            set_up_choices=16,
            square_byte=16,
        )
    },
    "pyramidfl": {
        "": Demand(
            "as oort; norms of updates, times of download, epochs and upload",
            "private",
            f"{_COHORT_LOSS}, and how far each one's update went; no message of its own",
        )
    },
    "ucb": {"": _ARMS},
    "quick-init-ucb": {"": _ARMS},
    "bp-ucb": {
        "": Demand(
            "nothing; clients know their own accuracy and their neighbours' messages",
            "small",
            "clients need links to their neighbours, who learn what they believe of themselves;"
            " the simulation holds distances between all",
            square_byte=42,
        )
    },
    "fedgra": {
        f"divergence_at: {place}": Demand(
            f"every 5 rounds of everybody: loss, {what} after an epoch, speed, memory",
            "private",
            f"the server is told the loss and {what} of single clients that it does not choose",
        )
        for place, what in (("server", "the model"), ("client", "how far the model moved"))
    },
    "gpfl": {
        "": Demand(
            "everybody's gradient once, then each update of its cohorts; stop.rounds; samples to"
            " validate with",
            "private",
            "the server looks at single gradients and single updates, and must have samples",
            set_up_choices=1,
        )
    },
    "survey": {
        "policy: 1": Demand("n_k; losses of its cohorts", "private", _COHORT_LOSS),
        "policy: 2": Demand("n_k; losses of its cohorts", "private", _COHORT_LOSS),
        "policy: 3": Demand("nothing", "yes", "keeps whom it asked last, nothing else"),
    },
    "tifl": {
        "rule: rank": Demand(
            "everybody's seconds for a training task; every 10 rounds everybody's accuracy;"
            " stop.rounds",
            "private",
            "the server is told accuracies on single clients' samples",
            set_up_choices=1,
        ),
        "rule: none": Demand(
            "everybody's seconds for a training task; stop.rounds",
            "yes",
            "seconds are of the device; a model trained for a profile is thrown away",
            set_up_choices=1,
        ),
    },
    "fedcs": {
        "": Demand(
            "n_k; speed and link of a tenth of the fleet, as they say; size of the model",
            "yes",
            "what is told is of the device; who overstates its speed is chosen more often",
        )
    },
    "rbcs-f": {
        "": Demand(
            "free processor and link of everybody, as they say; durations of its cohorts; size of"
            " the model",
            "yes",
            "what is told is of the device; everybody is asked before each choice",
        )
    },
}
"""By kind, then by what is set besides it, as in a scenario's `selector: {kind: ..., ...}`."""
