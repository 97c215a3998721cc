"""What a selector needs of a run, and in which words a run without it is refused.

A selector declares two needs, `needs_losses` and `needs_probes` of `fleetsim.contracts.Selector`,
and refuses in its `setup` what else does not suit it: too many sets, a cohort that is too small, no
samples kept for selectors, an open number of rounds. `set_up` sets a selector up for a scenario of
which nothing but its settings is known, so that all of this is found before any data are loaded.
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
    """What the selector needs that the run does not have, and the way out; None if nothing.

    Args:
        selector: before or after its set-up.
        is_trained: whether models are really trained.
        is_buffered: whether the server is a buffered one.
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
) -> None:
    """Set a selector up, to be thrown away, without data, model and places.

    Args:
        selector: a new one.
        seed: as the rest, what `FleetView` says.
        num_clients: N.
        cohort: clients wanted in a round.
        epochs: of local training; 0 where it counts in steps.
        steps: of local training; None where it counts in epochs.
        batch_size: of local training.
        learning_rate: in the first round.
        planned_rounds: after which the run ends; None if another rule ends it.
        has_validation: whether the server keeps samples for selectors.

    Raises:
        ScenarioError: the selector does not suit the scenario.
    """
    selector.setup(
        FleetView(
            seed=seed,
            # One number that stands N times, and takes the memory of one.
            num_samples=np.broadcast_to(np.int64(1), num_clients),
            cohort=cohort,
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            planned_rounds=planned_rounds,
            parameters=np.zeros(1, dtype=np.float32),
            validation=Evaluation(accuracy=None, loss=None) if has_validation else None,
        )
    )
