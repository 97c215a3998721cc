"""Track of the server's rounds, with the parts of each within it, and the counter of accuracy.

The table has the total time that a round waited for eligible clients and that it probed. They are
shown at its begin, in this order; the remaining time is that of the train tasks.
"""

import numpy as np
import pandas as pd

from fleetsim.contracts import RoundRow
from fleetsim.report.timeline import debug_annotations, packets, wire
from fleetsim.report.timeline.packets import Interned, Slices
from fleetsim.report.timeline.task_times import nanoseconds

COLUMNS = tuple(name for name in RoundRow._fields if name not in ("started_at_s", "finished_at_s"))
"""Columns of the rounds table that are annotations."""
PARTS = ("no eligible clients", "probing", "training")
"""Names of the slices within a round."""


def round_packets(rounds: pd.DataFrame, track: int, names: dict[str, Interned]) -> bytes:
    """Return the packets of the rounds' slices, in the order of the table."""
    num = len(rounds)
    uuids = np.full(num, track)
    began_s = rounds["started_at_s"].to_numpy(dtype=np.float64)
    begin_ns = nanoseconds(began_s)
    end_ns = nanoseconds(rounds["finished_at_s"].to_numpy(dtype=np.float64))
    searched_s = began_s + rounds["idle_s"].to_numpy(dtype=np.float64)
    probed_s = searched_s + rounds["probe_s"].to_numpy(dtype=np.float64)
    searched_ns, probed_ns = (
        np.minimum(nanoseconds(moment_s), end_ns) for moment_s in (searched_s, probed_s)
    )
    titles = [
        f"round {number}" if is_aggregated else f"round {number} (not aggregated)"
        for number, is_aggregated in zip(rounds["round"], rounds["aggregated"], strict=True)
    ]
    shown = [name for name in COLUMNS if name in rounds.columns]
    whole = Slices(titles, debug_annotations.of_rows(rounds, shown, names["annotation"]))
    category = names["category"].iid("round")
    rows = [packets.begins(begin_ns, uuids, whole, category)]
    bounds_ns = (begin_ns, searched_ns, probed_ns, end_ns)
    for part, first_ns, last_ns in zip(PARTS, bounds_ns[:-1], bounds_ns[1:], strict=True):
        is_there = last_ns > first_ns
        kind = Slices(np.full(num, names["name"].iid(part)))
        begins = packets.begins(first_ns, uuids, kind, category)
        rows += [begins.where(is_there), packets.ends(last_ns, uuids).where(is_there)]
    rows.append(packets.ends(end_ns, uuids))
    return wire.join(*rows).tobytes()


def accuracy_packets(rounds: pd.DataFrame, track: int) -> bytes:
    """Return the values of the counter of accuracy, each at the end of its round."""
    evaluated = rounds[rounds["accuracy"].notna()]
    at_ns = nanoseconds(evaluated["finished_at_s"].to_numpy(dtype=np.float64))
    return packets.counters(at_ns, track, evaluated["accuracy"].to_numpy(np.float64)).tobytes()
