"""Requirements of a selector on a run, checked before any data are loaded.

A selector declares two needs, `needs_losses` and `needs_probes` of `fleetsim.contracts.Selector`.
Its `setup` refuses other scenarios that do not suit it: too many sets, a cohort that is too small,
no samples kept for selectors, an open number of rounds.
"""

from fleetsim.contracts import FleetView, Selector
from fleetsim.errors import ScenarioError

LOSSES = (
    "chooses by losses, which a run without training does not have; train, or choose another"
    " selector"
)
PROBES = (
    "asks clients before it chooses, which server.mode = 'buffered' has no moment for; set"
    " server.mode: synchronous, or choose a selector without probes, such as random, oort or"
    " power-of-choice with variant: rpow-d"
)


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
