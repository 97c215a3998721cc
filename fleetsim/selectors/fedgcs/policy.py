"""Policy of FedGCS: networks with the records that they were fitted to, as arrays and at work.

Torch is imported when networks are used for the first time, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetsim.contracts import BoolArray, IntArray, State
from fleetsim.selectors.fedgcs.records import NO_RECORDS, Records
from fleetsim.selectors.fedgcs.score_scale import ScoreScale
from fleetsim.selectors.fedgcs.settings import FedGCSKeys

if TYPE_CHECKING:
    from fleetsim.selectors.fedgcs.network import Network
    from fleetsim.selectors.fedgcs.proposals import Proposals


class Policy:
    """Records, and the networks if there has been a fit."""

    def __init__(self, arrays: State | None = None) -> None:
        given = arrays or {}
        self.records: Records = Records.restored(given) if "records/sizes" in given else NO_RECORDS
        """Records to begin an ascent with, and for the next fit."""
        self._weights: State = {
            name: np.array(array)
            for name, array in given.items()
            if name == "known" or name.startswith("network/")
        }
        self._network: tuple[Network, IntArray] | None = None

    @property
    def is_fitted(self) -> bool:
        """True if there are networks."""
        return bool(self._weights)

    def arrays(self) -> State:
        """Return copies of networks and records."""
        weights = {name: array.copy() for name, array in self._weights.items()}
        return weights | self.records.state()

    def seen(self) -> set[frozenset[int]]:
        """Return the sets that have a record."""
        return {frozenset(selection.tolist()) for selection in self.records.selections}

    def fitted(
        self, records: Records, num_clients: int, settings: FedGCSKeys, seed: int, index: int
    ) -> Policy:
        """Return the policy after a fit to records that goes on from these networks."""
        from fleetsim.selectors.fedgcs import fitting  # noqa: PLC0415

        result = fitting.fit(
            records,
            num_clients=num_clients,
            settings=settings,
            seed=seed,
            epochs=settings.refit_epochs,
            index=index,
            before=self._weights or None,
        )
        return Policy(result.weights)

    def proposed(
        self,
        is_candidate: BoolArray,
        wanted: int,
        rules: FedGCSKeys,
        generator: np.random.Generator,
    ) -> tuple[list[IntArray], Proposals] | None:
        """Return proposed sets of at most `wanted` candidates of a mask over the fleet [N].

        The best comes first; None if no candidate is known.
        """
        from fleetsim.selectors.fedgcs import fitting, proposals  # noqa: PLC0415

        if self._network is None:
            self._network = fitting.network_of(self._weights)
        network, known = self._network
        is_allowed = is_candidate[known]
        # Records of clients that joined after the fit cannot be read yet.
        is_known = np.zeros(is_candidate.size, dtype=np.bool_)
        is_known[known] = True
        readable = self.records.within(is_known)
        if not is_allowed.any() or not len(readable):
            return None
        scores = ScoreScale.of(readable, rules).scores(readable, rules)
        order = np.argsort(-scores, kind="stable")
        starts = [np.searchsorted(known, readable.selections[i]) for i in order[: rules.starts]]
        found = proposals.propose(network, starts, is_allowed, wanted, rules, generator)
        return [known[tokens] for tokens in found.sets], found
