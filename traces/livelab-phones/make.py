"""Generator of the trace livelab-phones: people of people-week with app sessions on their phones.

    python traces/livelab-phones/make.py

The command rewrites the data beside this script and the figures in README.md, with the same bytes
each time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from app_sessions import APPS, with_app_sessions

from fleetsim import bundled
from fleetsim.fleet.traces.usage.files import read_trace, write_trace
from fleetsim.fleet.traces.usage.trace import Trace, shortened
from fleetsim.fleet.usage.usage import build_usage
from fleetsim.units import BYTE_PER_MIB

SEED = 20_261_121
NUM_USERS = 100

FIGURES_MARK = "<!-- from here on written by make.py -->\n"
_HOUR_S, _DAY_S = 3_600, 86_400


def generate(num_users: int = NUM_USERS) -> Trace:
    """Generate the trace: states of the first people of people-week, load and memory of apps."""
    people = read_trace(bundled.folder("traces") / "people-week")
    users = np.arange(num_users)
    return with_app_sessions(shortened(people, users, people.span_s[users]), seed=SEED)


def figures(trace: Trace) -> str:
    """Return the generated part of README.md: parameters and statistics."""
    last_of_user = trace.offsets[1:] - 1
    held_s = np.append(np.diff(trace.times_s), 0)
    held_s[last_of_user] = trace.span_s - trace.times_s[last_of_user]
    order = np.argsort(trace.load)
    share = np.cumsum(held_s[order]) / held_s.sum()
    quantiles = [trace.load[order][np.searchsorted(share, q)] for q in (0.1, 0.5, 0.9, 0.99)]
    ram_byte = trace.columns[4]
    is_taken = ram_byte > 0
    ram_mib = [
        int(np.quantile(ram_byte, q, weights=held_s, method="inverted_cdf")) // BYTE_PER_MIB
        for q in (0.9, 0.99, 1.0)
    ]
    usage = build_usage(
        trace, seed=0, has_people=np.ones(trace.num_users, dtype=np.bool_), shift="none"
    )
    minutes = np.arange(0, 7 * _DAY_S, 300)
    load = [usage.state_at(np.arange(trace.num_users), float(at_s)).load.mean() for at_s in minutes]
    by_hour = np.array(load).reshape(7, 24, -1).mean(axis=(0, 2))
    apps = "\n".join(
        f"| {app.name} | {app.chance:g} | {app.median_s:g} | {app.load_percent} % | {app.ram_mib} |"
        for app in APPS
    )
    hours = "\n".join(f"| {hour:02d} | {value:.3f} |" for hour, value in enumerate(by_hour))
    return f"""
SEED = {SEED}, {trace.num_users} users, {trace.num_changes} changes

| app | share of sessions | median length, s | load | memory, MiB |
|---|---|---|---|---|
{apps}

Load over all time: mean {np.average(trace.load, weights=held_s):.3f}; 10 %, 50 %, 90 % and 99 % \
quantile {", ".join(f"{value:.2f}" for value in quantiles)}.

Apps take memory for {np.average(is_taken, weights=held_s):.3f} of the time, in its mean \
{np.average(ram_byte, weights=held_s) / BYTE_PER_MIB:.0f} MiB; 90 % and 99 % quantile and the most \
{", ".join(map(str, ram_mib))} MiB, in {np.unique(ram_byte).size} different amounts.

| hour | mean load |
|---|---|
{hours}
"""


def readme(trace: Trace, before: str) -> str:
    """Return README.md with new figures; the text before the mark is kept."""
    return before.partition(FIGURES_MARK)[0] + FIGURES_MARK + figures(trace)


def main() -> None:
    """Rewrite the folder of this script."""
    trace = generate()
    folder = Path(__file__).resolve().parent
    before = (folder / "README.md").read_text(encoding="utf-8")
    write_trace(trace, folder, readme=readme(trace, before))
    for path in sorted(folder.glob("*.gz")):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
