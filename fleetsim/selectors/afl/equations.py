"""Equations of active federated learning (AFL): valuations, and the random draw from them.

The valuation of a client k is the loss of its samples under the model that it last received,

    v_k = (1 / sqrt(n_k)) sum of Loss over its n_k samples = sqrt(n_k) * mean loss,

refreshed when k takes part and stale otherwise. Of the C candidates

1. the floor(alpha_1 C) with the smallest valuations are left out of step 2;
2. floor((1 - alpha_3) K) are drawn without replacement, each next one with probability
   proportional to exp(alpha_2 v_k);
3. the others are drawn uniformly from all that remain, including those left out in step 1.

This is *active* federated learning, not agnostic federated learning, which shares its letters.

Source: Goetz, Malik, Bui, Moon, Liu, Kumar, "Active federated learning", arXiv 1909.12641, as read
in Yoruko-Tang/FedCor@d941083 `src/federated_main.py` and facebookresearch/FLSim (before 2022-06-03)
`HighLossActiveUserSelector`. Both leave the fraction alpha_1 *out*; they differ in which part of
the cohort is rounded down, see `num_active`.
"""

from typing import Literal

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.counts import ceil_product, floor_product
from fleetsim.selectors.tie_breaking import best

Rounding = Literal["active", "random"]


def valuations(num_samples: IntArray, mean_loss: FloatArray) -> FloatArray:
    """Return the valuation sqrt(n) * mean loss of each client [n].

    >>> valuations(np.array([4, 100]), np.array([1.5, 0.5])).tolist()
    [3.0, 5.0]

    Source: Goetz et al., arXiv 1909.12641, the valuation.
    """
    return np.sqrt(num_samples) * mean_loss


def num_active(wanted: int, alpha_3: float, rounding: Rounding = "active") -> int:
    """Return the number of clients drawn by valuation; the rest of `wanted` are drawn uniformly.

    The share alpha_3 is drawn uniformly. Rounded down is the part `active`, floor((1 - alpha_3) K),
    as FedCor and plato have it, or `random`, K - floor(alpha_3 K), as FLSim has it.

    >>> num_active(5, 0.1), num_active(5, 0.1, "random"), num_active(10, 0.9)
    (4, 5, 1)

    Source: Goetz et al., arXiv 1909.12641, step 2 (alpha_3); the roundings are those of
    Yoruko-Tang/FedCor@d941083 and of facebookresearch/FLSim.
    """
    if rounding == "active":
        return wanted - ceil_product(alpha_3, wanted)
    return wanted - floor_product(alpha_3, wanted)


def choose(
    values: FloatArray,
    wanted: int,
    *,
    alpha_1: float,
    alpha_2: float,
    alpha_3: float,
    exponentials: FloatArray,
    uniforms: FloatArray,
    keys: FloatArray,
    rounding: Rounding = "active",
) -> IntArray:
    """Return positions of the chosen candidates: the active ones in the order drawn, then others.

    The active draw is an exponential race, in logarithms: arrival i at log E_i - alpha_2 v_i. If
    fewer can be drawn actively than step 2 asks for, the uniform draw fills in.

    Valuations v [C] are -infinity where not known; those are never drawn actively. Exponentials E
    are Exp(1) variables of the race; of the uniforms the smallest go first; among equal valuations
    at the border of those left out the smaller key counts as the larger [C].

    Source: Goetz et al., arXiv 1909.12641, steps 1 to 3.
    """
    kept = best(values, values.size - floor_product(alpha_1, values.size), keys)
    exponents = np.full(values.shape, -np.inf)
    known = kept[np.isfinite(values[kept])]
    exponents[known] = alpha_2 * values[known]
    racers = np.flatnonzero(np.isfinite(exponents))
    quota = min(num_active(wanted, alpha_3, rounding), racers.size)
    with np.errstate(divide="ignore"):
        scores = exponents[racers] - np.log(exponentials[racers])
    active = racers[best(scores, quota, keys[racers])]
    is_left = np.ones(values.size, dtype=np.bool_)
    is_left[active] = False
    left = np.flatnonzero(is_left)
    drawn = left[best(-uniforms[left], wanted - quota, keys[left])]
    return np.concatenate([active, drawn])
