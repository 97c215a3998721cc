"""Requirements of a selector on a run, checked before any data are loaded.

A selector declares two needs, `needs_losses` and `needs_probes` of `fleetsim.contracts.Selector`.
Its `setup` refuses other scenarios that do not suit it: too many sets, a cohort that is too small,
no samples kept for selectors, an open number of rounds. `set_up` calls it with nothing but the
settings of a scenario.
"""

from __future__ import annotations

import numpy as np

from fleetsim.contracts import Evaluation, FleetView, Selector

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
    """Return the need of the selector that the run does not meet, with the way out, or None.

    Args:
        selector: the selector, before or after its set-up.
        is_trained: true if models are really trained.
        is_buffered: true for a buffered server.
    """
    if selector.needs_losses and not is_trained:
        return LOSSES
    return PROBES if is_buffered and selector.needs_probes else None


def set_up(
    selector: Selector,
    *,
    seed: int,
    num_clients: int,
    cohort: int,
    epochs: int,
    steps: int | None,
    batch_size: int,
    learning_rate: float,
    planned_rounds: int | None,
    has_validation: bool,
    clients_hash: str | None = None,
) -> None:
    """Set up a selector that is then discarded, without data, model and places.

    Args:
        selector: a new selector.
        seed: seed of the scenario; all arguments are those of `FleetView`.
        num_clients: size of the fleet N.
        cohort: clients wanted in a round.
        epochs: epochs of local training; 0 where it counts in steps.
        steps: steps of local training; None where it counts in epochs.
        batch_size: batch size of local training.
        learning_rate: learning rate in the first round.
        planned_rounds: number of rounds of the run; None if another rule ends it.
        has_validation: true if the server keeps samples for selectors.
        clients_hash: SHA-256 of who the clients are.

    Raises:
        ScenarioError: the selector does not suit the scenario.
    """
    selector.setup(
        FleetView(
            seed=seed,
            # One number seen N times, which takes the memory of one.
            num_samples=np.broadcast_to(np.int64(1), num_clients),
            cohort=cohort,
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            planned_rounds=planned_rounds,
            parameters=np.zeros(1, dtype=np.float32),
            validation=Evaluation(accuracy=None, loss=None) if has_validation else None,
            clients_hash=clients_hash,
        )
    )
