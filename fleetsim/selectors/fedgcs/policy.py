"""Policy of FedGCS: networks with the records that they were fitted to, as arrays and at work.

Torch is imported when networks are used for the first time, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleetsim.contracts import BoolArray, IntArray, State
from fleetsim.errors import DataError
from fleetsim.selectors.fedgcs.records import NO_RECORDS, ScoreScale, SelectionRecords
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from fleetsim.selectors.learned_weights import require_arrays

if TYPE_CHECKING:
    from fleetsim.selectors.fedgcs.network import Network
    from fleetsim.selectors.fedgcs.proposals import Proposals


class Policy:
    """Records, and the networks if there has been a fit."""

    def __init__(self, state: State | None = None) -> None:
        self.restore(state or {})

    def restore(self, given: State) -> None:
        """Replace networks and records by a copy of what `state` returned."""
        self.records: SelectionRecords = (
            SelectionRecords.restored(given) if "records/sizes" in given else NO_RECORDS
        )
        """Records to begin an ascent with, and for the next fit."""
        self.weights: State = {
            name: np.array(array)
            for name, array in given.items()
            if name == "known" or name.startswith("network/")
        }
        """Networks and the clients that they know; empty before a fit."""
        self._network: tuple[Network, IntArray] | None = None

    def state(self) -> State:
        """Return copies of networks and records."""
        weights = {name: array.copy() for name, array in self.weights.items()}
        return weights | self.records.state()

    def seen(self) -> set[frozenset[int]]:
        """Return the sets that have a record."""
        return {frozenset(selection.tolist()) for selection in self.records.selections}

    def proposed(
        self,
        is_candidate: BoolArray,
        wanted: int,
        rules: FedGCSSettings,
        generator: np.random.Generator,
    ) -> tuple[list[IntArray], Proposals] | None:
        """Return proposed sets of at most `wanted` candidates of a mask over the fleet [N].

        The best comes first; None if no candidate is known.
        """
        from fleetsim.selectors.fedgcs import fitting, proposals  # noqa: PLC0415

        if self._network is None:
            self._network = fitting.network_of(self.weights)
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
        result = proposals.propose(network, starts, is_allowed, wanted, rules, generator)
        return [known[tokens] for tokens in result.sets], result


def require_form(name: str, weights: State) -> None:
    """Check types and shapes of the arrays of a weight file, and that its records are whole."""
    widths = {"embedding.weight": 1, "encoder.weight_hh_l0": 1, "evaluator.0.weight": 0}
    require_arrays(name, "fedgcs", weights, dict.fromkeys(map(_of_network, widths), (None, None)))
    embedding, hidden, evaluator = (
        weights[_of_network(key)].shape[axis] for key, axis in widths.items()
    )
    require_arrays(name, "fedgcs", weights, {"known": (None,)}, np.int64)
    num_tokens = weights["known"].size + 1
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.weight": (num_tokens, embedding),
        "evaluator.0.weight": (evaluator, hidden),
        "evaluator.0.bias": (evaluator,),
        "evaluator.2.weight": (1, evaluator),
        "evaluator.2.bias": (1,),
        "output.weight": (num_tokens, 2 * hidden),
        "output.bias": (num_tokens,),
        "start.weight": (embedding, hidden),
        "start.bias": (embedding,),
    }
    for layer in ("encoder", "decoder"):
        shapes |= {
            f"{layer}.weight_ih_l0": (4 * hidden, embedding),
            f"{layer}.weight_hh_l0": (4 * hidden, hidden),
            f"{layer}.bias_ih_l0": (4 * hidden,),
            f"{layer}.bias_hh_l0": (4 * hidden,),
        }
    of_network = {_of_network(key): shape for key, shape in shapes.items()}
    require_arrays(name, "fedgcs", weights, of_network)
    require_arrays(name, "fedgcs", weights, {_of_network("is_pooled"): ()}, np.bool_)
    if "records/sizes" not in weights:  # networks alone, which a first fit gives records
        return
    lists = {"records/sizes": (None,), "records/clients": (None,)}
    require_arrays(name, "fedgcs", weights, lists, np.int64)
    sizes, known, clients = (
        weights[key].astype(np.int64) for key in ("records/sizes", "known", "records/clients")
    )
    costs = dict.fromkeys(
        ("records/performance", "records/latency_s", "records/energy_j"), sizes.shape
    )
    require_arrays(name, "fedgcs", weights, costs, np.float64)
    try:
        is_whole = (
            known.size > 0
            and bool((np.diff(known, prepend=-1) > 0).all())
            and bool((sizes > 0).all())
            and int(sizes.sum()) == clients.size
            and len(SelectionRecords.restored(weights)) > 0
        )
    except ValueError:
        is_whole = False
    if not is_whole:
        raise DataError(
            f"server.selector.weights: {name} has clients or records that contradict each other;"
            " train with `fleetsim selector train fedgcs`"
        )


def _of_network(key: str) -> str:
    return f"network/{key}"
