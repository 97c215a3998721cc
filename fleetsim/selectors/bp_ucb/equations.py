"""Equations of BP-UCB: index of a client from its own opinions and its neighbours' beliefs.

Arms are clients. In slot t client n has the index

    Psi_n = r_n + b_n(1) / N + mu sqrt(ln t / Pi_n)      (17)

with r_n the mean of its *own* opinions over the slots in which it was selected (18), b_n(1) its
belief that it should be, and Pi_n the number of these slots. The K largest train.
`bandits.equations.rewarded` adds the opinions of clients that trained, in slot 1 of all that have
one; `tie_breaking.best` gives the K best.

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection", section V-A, Algorithm 2. The paper does not say which clients train in slot 1; here K
random ones do (the caller's draw). The opinion that each client has of that model is its r_n, with
Pi_n = 1.
"""

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.selectors.bandits import equations


def index(
    means: FloatArray, plays: IntArray, beliefs: FloatArray, slot: int, mu: float = 0.01
) -> FloatArray:
    """Return Psi of each client [N]; infinite for a client without a counted opinion.

    Means r, plays Pi and beliefs b_n(1) in [0, 1] are of each client [N]; slot t is 1 for the
    first; mu weighs exploration.

    Source: Tong et al., "From learning to analytics", (17).
    """
    return equations.index(means, plays, slot, mu) + beliefs / max(beliefs.size, 1)
