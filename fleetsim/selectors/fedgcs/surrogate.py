"""Surrogate records of FedGCS: sets that were never run, scored by what is known of their clients.

A set's performance is the sum over its clients of Oort's utility

    U(i) = n_i sqrt(mean of the squared losses of its samples)

scaled to [0, 1] over the clients, divided by the clients of the set. Its seconds are the largest
duration of any of them, its joules the sum, as each was last observed. A client that has not
delivered yet counts with the mean of those that have.

The authors' code makes records of random sets, and ranks proposals by the sum of such utilities;
its energy and latency are commented out. What is scored here is a guess, not a measurement.

Source: zhiyuan-ning/GenerativeFL@785773b (utilities); the means, seconds and joules are fleetsim's.
"""

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.selectors.fedgcs.equations import scaled
from fleetsim.selectors.fedgcs.records import NO_RECORDS, SelectionRecords


def surrogate_records(
    utility: FloatArray,
    duration_s: FloatArray,
    energy_j: FloatArray,
    num_sets: int,
    size: int,
    generator: np.random.Generator,
) -> SelectionRecords:
    """Return records of random sets of clients; none while no client is known.

    Utilities U, and seconds and joules of the last delivered task, are of every client [N], NaN
    where not known. A set has `size` clients, or all if there are fewer.

    >>> known, dice = np.array([2.0, np.nan, 6.0]), np.random.Generator(np.random.Philox(0))
    >>> one = surrogate_records(known, 10.0 * known, known, 1, 3, dice)
    >>> one.performance.tolist(), one.latency_s.tolist(), one.energy_j.tolist()
    ([0.5], [60.0], [12.0])
    """
    columns = [_filled(column) for column in (utility, duration_s, energy_j)]
    if any(column.size == 0 for column in columns):
        return NO_RECORDS
    utilities, seconds, joules = columns
    worth = scaled(utilities, float(utilities.min()), float(utilities.max()))
    num = min(size, utility.size)
    sets: list[IntArray] = [
        generator.choice(utility.size, num, replace=False) for _ in range(num_sets)
    ]
    return SelectionRecords.of(
        sets,
        [float(worth[chosen].mean()) for chosen in sets],
        [float(seconds[chosen].max()) for chosen in sets],
        [float(joules[chosen].sum()) for chosen in sets],
    )


def _filled(values: FloatArray) -> FloatArray:
    """Return values with their mean where they are NaN; nothing if all are."""
    is_known = np.isfinite(values)
    return np.where(is_known, values, values[is_known].mean()) if is_known.any() else np.empty(0)
