"""Demands of selectors: what the server must know, and what a run must have.

The settings class of each selector has an attribute `demands`: one `Demand` for each value of a
setting that changes what the selector asks or knows, by that setting as a scenario writes it
("variant: pow-d"), or by "" if there is none. The price list,
docs/evidence/selector-prices.md, is made from them and from runs.

Four words say whether a selector may be used for real:

* `yes`: the server learns nothing of a single client's samples but their number;
* `private`: it learns what a single client's samples do to a model: losses, accuracies, gradients
  or single updates. Secure aggregation, which shows the server only sums, hides these;
* `small`: memory or time of the host grows faster than the fleet; it may be private, too;
* `oracle`: it needs what a server cannot know before the run.

A run must meet two needs, `needs_losses` and `needs_probes` of `fleetsim.contracts.Selector`,
checked before any data are loaded. A selector's `setup` refuses other scenarios that do not suit
it: too many sets, a cohort that is too small, no samples kept for selectors, an open number of
rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleetsim.contracts import FleetView, Selector
from fleetsim.errors import ScenarioError
from fleetsim.settings import Settings

Use = Literal["yes", "private", "small", "oracle"]

DECLARED_SAMPLES = "clients declare n_k; a client that overstates it is chosen more often"
PROBED_LOSS = "the server is told the loss of a single client's samples, also of clients not chosen"
COHORT_LOSS = "the server is told the loss of every chosen client's samples"

LOSSES = (
    "chooses by losses, which a run without training does not have; train, or choose another"
    " selector"
)
PROBES = (
    "asks clients before it chooses, which server.mode = 'buffered' has no moment for; set"
    " server.mode: synchronous, or choose a selector without probes, such as random, oort or"
    " power-of-choice with variant: rpow-d"
)


@dataclass(frozen=True, slots=True)
class Demand:
    """Information and memory that a selector needs."""

    knows: str
    """Information that the server needs; n_k are the samples of client k."""
    use: Use
    """Verdict on the use by a real server."""
    because: str
    """Reason for `use`."""
    set_up_choices: int = 0
    """Number of first choices whose probes are asked once; later probes repeat."""
    square_byte: int = 0
    """Bytes of the largest arrays over pairs of clients, for each pair; 0: there are none."""
    client_byte: int = 0
    """Bytes of arrays for each client, where these are more than some columns; 0: they are not."""
    has_sets: bool = False
    """True if it lists all C(N, K) sets of clients."""


Demands = Mapping[str, Demand]
"""Demands of a selector by the setting that changes them."""


def reason_to_hide(selector: Settings) -> str | None:
    """Return what a selector with these settings needs and sums of updates do not show, or None.

    >>> from fleetsim.selectors.afl.selector import AflSettings
    >>> "loss" in (reason_to_hide(AflSettings()) or "")
    True
    """
    demands: Demands | None = getattr(type(selector), "demands", None)
    if demands is None:
        return "it does not say in `demands` what the server must know"
    for setting, demand in demands.items():
        key, _, value = setting.partition(": ")
        if setting and str(getattr(selector, key)).lower() != value:
            continue
        if demand.use != "yes":
            return demand.because
    return None


def unmet(selector: Selector, *, is_trained: bool = True, is_buffered: bool = False) -> str | None:
    """Return the need of the selector that the run does not meet, with the way out, or None."""
    if selector.needs_losses and not is_trained:
        return LOSSES
    return PROBES if is_buffered and selector.needs_probes else None


def require_validation(fleet: FleetView, needs: str, instead: str = "") -> None:
    """Refuse a run without samples that the server keeps for selectors.

    `needs` names the selector and its use of the accuracy ("gpfl needs"), `instead` another way
    out.
    """
    if fleet.validation is None:
        raise ScenarioError(
            f"server.selector: {needs} the model's accuracy on samples that the server keeps for"
            f" selectors; set evaluate.validation_fraction, such as 0.1{instead}"
        )
