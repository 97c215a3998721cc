"""Form of the arrays of a weight file of FedGCS: networks, their clients and their records."""

import numpy as np

from fleetsim.contracts import State
from fleetsim.errors import DataError
from fleetsim.selectors.fedgcs.records import Records
from fleetsim.selectors.learned_weights import require_arrays

_KIND = "fedgcs"


def require_form(name: str, weights: State) -> None:
    """Check types and shapes of the arrays of a weight file, and that its records are whole."""
    widths = {"embedding.weight": 1, "encoder.weight_hh_l0": 1, "evaluator.0.weight": 0}
    require_arrays(name, _KIND, weights, dict.fromkeys(map(_of_network, widths), (None, None)))
    embedding, hidden, evaluator = (
        weights[_of_network(key)].shape[axis] for key, axis in widths.items()
    )
    require_arrays(name, _KIND, weights, {"known": (None,)}, np.int64)
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
    require_arrays(name, _KIND, weights, of_network)
    require_arrays(name, _KIND, weights, {_of_network("is_pooled"): ()}, np.bool_)
    if "records/sizes" not in weights:  # networks alone, which a first fit gives records
        return
    lists = {"records/sizes": (None,), "records/clients": (None,)}
    require_arrays(name, _KIND, weights, lists, np.int64)
    sizes, known, clients = (
        weights[key].astype(np.int64) for key in ("records/sizes", "known", "records/clients")
    )
    costs = dict.fromkeys(
        ("records/performance", "records/latency_s", "records/energy_j"), sizes.shape
    )
    require_arrays(name, _KIND, weights, costs, np.float64)
    try:
        is_whole = (
            known.size > 0
            and bool((np.diff(known, prepend=-1) > 0).all())
            and bool((sizes > 0).all())
            and int(sizes.sum()) == clients.size
            and len(Records.restored(weights)) > 0
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
