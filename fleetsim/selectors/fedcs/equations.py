"""Equations of FedCS: length of a round with sequential uploads, and clients that fit into it.

The model goes out to all chosen clients at once, at the rate of the slowest (multicast). They
update it in parallel and upload in sequence, in the order of the choice. With d, u and v a client's
seconds of download, update and upload, S the clients chosen so far and Theta the end of their last
upload, counted from the end of the distribution,

    D(S)   = max of d over S (the payload over the smallest rate), D({}) = 0
    Theta' = Theta + v + max(0, u - Theta) = max(Theta, u) + v
    T(S)   = t_selection + D(S) + Theta + t_aggregation

Greedily, the client that prolongs the round least, by D(S and k) - D(S) + v + max(0, u - Theta), is
taken next if T stays below the deadline. (The algorithm maximises the inverse of that increase.) A
client that does not fit does not end the paper's loop. But T of the others is not shorter, so no
other client fits: the packing stops there.

Source: Nishio, Yonetani, "Client selection for federated learning with heterogeneous resources in
mobile edge", ICC 2019 (arXiv 1804.08333), Algorithm 3. Its full text was not at hand; the equations
are those of re-implementations that agree.
"""

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.counts import ceil_product
from fleetsim.selectors.tie_breaking import best


def num_asked(num_candidates: int, fraction: float = 0.1) -> int:
    """Return the number of candidates asked for their resources: ceil(C N), at least 1 if any.

    >>> num_asked(1000), num_asked(11), num_asked(3), num_asked(0)
    (100, 2, 1, 0)

    Source: FedCS (Nishio, Yonetani, ICC 2019), the resource request of Protocol 1.
    """
    return min(ceil_product(fraction, num_candidates) or 1, num_candidates)


def pack(
    download_s: FloatArray,
    update_s: FloatArray,
    upload_s: FloatArray,
    deadline_s: float,
    keys: FloatArray,
    *,
    selection_s: float = 0.0,
    aggregation_s: float = 0.0,
    max_clients: int | None = None,
) -> IntArray:
    """Return positions of the clients that fit into the round, in the order of their uploads.

    Seconds are of each client [n]. The selection is before the distribution, the aggregation after
    the last upload; a deadline of infinity is none. Among clients that prolong the round equally
    the smaller key goes first [n].

    Source: FedCS (Nishio, Yonetani, ICC 2019), Algorithm 3.
    """
    left = np.arange(download_s.size, dtype=np.int64)
    chosen: list[int] = []
    distribution_s, theta_s = 0.0, 0.0
    while left.size and len(chosen) != max_clients:
        ends_s = np.maximum(theta_s, update_s[left]) + upload_s[left]
        # The increase of the round, up to a constant.
        total_s = np.maximum(distribution_s, download_s[left]) + ends_s
        at = int(best(-total_s, 1, keys[left])[0])
        if not selection_s + float(total_s[at]) + aggregation_s < deadline_s:
            break
        client = int(left[at])
        chosen.append(client)
        distribution_s = max(distribution_s, float(download_s[client]))
        theta_s = float(ends_s[at])
        left = np.delete(left, at)
    return np.array(chosen, dtype=np.int64)
