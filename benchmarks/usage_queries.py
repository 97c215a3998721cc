"""Rate of queries of clients' usage states: for one client, a thousand and the whole fleet.

    python benchmarks/usage_queries.py [--devices 100000] [--trace people-week]

Each query names a random client and a random time within ten laps. Host times hold for this
machine; compare them within one run only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.usage.loading import find_trace
from fleetsim.fleet.usage.usage import build_usage

_NUM_LAPS = 10
_LEAST_S = 1.0
_NUM_ALONE = 10_000
"""Number of queries of one client each, which are made in sequence."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--trace", default="people-week")
    options = parser.parse_args()
    trace = read_trace(find_trace(options.trace))
    size: int = options.devices
    began_s = time.perf_counter()
    usage = build_usage(trace, seed=1, has_people=np.ones(size, dtype=np.bool_))
    schedule = usage.eligible_schedule(charging_required=True, unmetered_required=True)
    built_s = time.perf_counter() - began_s
    stream = np.random.Generator(np.random.Philox(key=1))
    last_s = float(_NUM_LAPS * trace.span_s.max())

    def drawn(num: int) -> tuple[IntArray, FloatArray]:
        return stream.integers(0, size, num), stream.uniform(0.0, last_s, num)

    print(f"trace         {options.trace}: {trace.num_users} users, {trace.num_changes} changes")
    print(f"fleet         {size} clients, built in {1e3 * built_s:.0f} ms")
    for num in (1, 1_000, size):
        clients, at_s = drawn(num)
        _report("states", num, partial(usage.state_at, clients, at_s))
        _report("eligible", num, partial(schedule.is_at, clients, at_s))
        _report("next change", num, partial(usage.steps.next_change_after, clients, at_s))
    for what, query in (
        ("state, alone", usage.state_at_one),
        ("change, alone", usage.steps.next_change_after_one),
        ("eligible, alone", schedule.is_at_one),
    ):
        clients, at_s = drawn(_NUM_ALONE)
        _report_alone(what, query, list(zip(clients.tolist(), at_s.tolist(), strict=True)))


def _report(what: str, num: int, query: Callable[[], object]) -> None:
    """Repeat a query for a second and print its rate."""
    query()
    num_calls, began_s = 0, time.perf_counter()
    while (took_s := time.perf_counter() - began_s) < _LEAST_S:
        query()
        num_calls += 1
    per_s = num * num_calls / took_s
    print(f"{what:<16}{num:>8} at once {per_s:>14,.0f} a second")


def _report_alone(
    what: str, query: Callable[[int, float], object], arguments: list[tuple[int, float]]
) -> None:
    """Make single queries for a second, in random order of clients and times; print the rate."""
    num_made, began_s = 0, time.perf_counter()
    while (took_s := time.perf_counter() - began_s) < _LEAST_S:
        for client, at_s in arguments:
            query(client, at_s)
        num_made += len(arguments)
    print(f"{what:<16}{1:>8} at once {num_made / took_s:>14,.0f} a second")


if __name__ == "__main__":
    main()
