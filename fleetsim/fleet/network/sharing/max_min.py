"""Max-min fair rates of clients that transmit at the same time.

All rates grow together, and a client's rate stops growing where its channel, its cell or the
server's link is full (Bertsekas & Gallager, Data Networks, 2nd edition, section 6.5). Every client
crosses its cell first and the server's link next, so cells with capacities give

    rate = min(demand, level of its cell, level of the server)
    level of a link: the L with sum of min(rate so far, L) = capacity; none if it is not full

In a shared band parts grow instead of rates. There the level of the server is the L at which the
rates of all clients, divided anew under min(demand, L), add up to its capacity.
"""

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.sharing.band import Band


def rates_in_bands(
    demand_bit_per_s: FloatArray,
    channel_bit_per_s: FloatArray,
    multiple: FloatArray,
    cell: IntArray,
    band: Band,
    num_cells: int,
    most_bit_per_s: float,
) -> FloatArray:
    """Return rates of n flows [n] whose cells' bands are divided max-min fair.

    No flow exceeds its demand, >= 0, or `most_bit_per_s`. Its channel would carry another over
    the whole band, without modem and transport; both contain the factor `multiple` of the band's
    rates. The cell `num_cells` is none.
    """
    rate_bit_per_s = np.minimum(demand_bit_per_s, most_bit_per_s)
    rows = np.flatnonzero(cell < num_cells)
    whole_bit_per_s = channel_bit_per_s[rows] / multiple[rows]
    part = np.zeros(cell.size)
    part[rows] = band.parts(whole_bit_per_s, rate_bit_per_s[rows] / multiple[rows])
    capacity = np.ones(num_cells + 1)
    capacity[-1] = np.inf
    level = levels(part, cell, capacity)
    is_less = level[cell[rows]] < part[rows]
    rows, whole_bit_per_s = rows[is_less], whole_bit_per_s[is_less]
    carried = band.rates_bit_per_s(whole_bit_per_s, level[cell[rows]]) * multiple[rows]
    rate_bit_per_s[rows] = np.minimum(rate_bit_per_s[rows], carried)
    return rate_bit_per_s


def fair_rates(
    demand_bit_per_s: FloatArray,
    cell: IntArray,
    cell_bit_per_s: FloatArray,
    server_bit_per_s: float,
) -> FloatArray:
    """Return max-min fair rates of n flows [n] through their cells and then one common link.

    No flow exceeds its demand [n]; capacities of cells [C] and of the link may be inf: no limit.

    >>> demand, cell = np.array([1.0, 9.0, 9.0, 9.0]), np.array([0, 0, 0, 1])
    >>> fair_rates(demand, cell, np.array([9.0, 6.0]), np.inf)  # 8 for two, 6 for one
    array([1., 4., 4., 6.])
    >>> fair_rates(demand, cell, np.array([9.0, 6.0]), 10.0)  # less than 14: 9 for three
    array([1., 3., 3., 3.])
    """
    rate_bit_per_s = demand_bit_per_s.copy()
    if cell_bit_per_s.min() < np.inf:
        level = levels(rate_bit_per_s, cell, cell_bit_per_s)
        rate_bit_per_s = np.minimum(rate_bit_per_s, level[cell])
    if server_bit_per_s < np.inf:
        one_link = np.zeros(cell.size, dtype=np.int64)
        level = levels(rate_bit_per_s, one_link, np.array([server_bit_per_s]))
        rate_bit_per_s = np.minimum(rate_bit_per_s, level[0])
    return rate_bit_per_s


def levels(
    most_bit_per_s: FloatArray, link: IntArray, capacity_bit_per_s: FloatArray
) -> FloatArray:
    """Return the rate up to which each link [L] is shared evenly; inf where it is not full.

    The rest of a link is divided evenly among the flows that are not yet served. Flows that need
    less get what they need, which leaves more to the others. Every iteration serves a flow or is
    the last, so there are at most n + 1; mostly three or four, of O(n + L) each. A flow [n] has a
    highest rate and a link.
    """
    num = capacity_bit_per_s.size
    is_served = np.zeros(link.size, dtype=np.bool_)
    left_bit_per_s, num_left = capacity_bit_per_s, np.bincount(link, minlength=num)
    while True:
        level = np.full(num, np.inf)
        np.divide(left_bit_per_s, num_left, out=level, where=num_left > 0)
        is_less = most_bit_per_s < level[link]
        is_less &= ~is_served
        if not is_less.any():
            return level
        is_served |= is_less
        taken_bit_per_s = np.bincount(link, most_bit_per_s * is_served, minlength=num)
        left_bit_per_s = capacity_bit_per_s - taken_bit_per_s
        num_left = np.bincount(link, ~is_served, minlength=num)
