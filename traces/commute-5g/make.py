"""Generator of the trace commute-5g: network rates of the phones of synthetic commuters.

    python traces/commute-5g/make.py

The command rewrites the data beside this script and the figures in README.md, with the same bytes
each time. README.md states the model in terms of the constants below, which are all of its
parameters. They are plausible, not fitted to data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray
from fleetsim.fleet.traces.network.files import write_net_trace
from fleetsim.fleet.traces.network.trace import NetTrace
from fleetsim.units import BIT_PER_KBIT, BIT_PER_MBIT, MS_PER_S

SEED = 20_260_302
NUM_COMMUTERS = 30
FIGURES_MARK = "<!-- from here on written by make.py -->\n"

# --- parameters: pairs are the bounds of a uniform draw -------------------------------------------
SAMPLE_S = 2
HOME_MIN, WALK_MIN, RIDE_MIN, OFFICE_MIN = (10, 20), (4, 10), (15, 35), (10, 20)
DOWN_MEDIAN_MBIT_PER_S = {"home": 90.0, "walk": 50.0, "ride": 22.0, "office": 70.0}
UP_MEDIAN_MBIT_PER_S = {"home": 22.0, "walk": 12.0, "ride": 4.0, "office": 16.0}
SIGMA = {"home": 0.3, "walk": 0.6, "ride": 1.0, "office": 0.4}
PERSON_SIGMA = 0.35
CORRELATION_S = 20.0
UP_WITH_DOWN = 0.7
SUBWAY_SHARE = 0.4
TUNNELS_PER_MIN = {"subway": 0.35, "train": 0.12}
TUNNEL_S = {"subway": (20, 90), "train": (5, 40)}
HANDOVERS_PER_MIN = 0.5
HANDOVER_S = (2, 4)


def commute(person: int, seed: int = SEED) -> FloatArray:
    """Draw one commuter's rates down and up, one pair per SAMPLE_S seconds [2, n]."""
    stream = rng.stream(seed, "commute-5g", person)

    def between(low_high: tuple[int, int]) -> float:
        return float(stream.uniform(*low_high))

    parts = {"home": HOME_MIN, "walk": WALK_MIN, "ride": RIDE_MIN, "office": OFFICE_MIN}
    lasts_s = {part: between(minutes) * 60.0 for part, minutes in parts.items()}
    kind = "subway" if stream.random() < SUBWAY_SHARE else "train"
    place = np.repeat(
        list(parts), [int(seconds // SAMPLE_S) for seconds in lasts_s.values()]
    ).tolist()
    size = len(place)
    memory = np.exp(-SAMPLE_S / CORRELATION_S)
    steps = stream.normal(size=(2, size))
    steps[1] = UP_WITH_DOWN * steps[0] + np.sqrt(1.0 - UP_WITH_DOWN**2) * steps[1]
    wave = np.empty((2, size))
    wave[:, 0] = steps[:, 0]
    for i in range(1, size):
        wave[:, i] = memory * wave[:, i - 1] + np.sqrt(1.0 - memory**2) * steps[:, i]
    better = np.exp(PERSON_SIGMA * stream.normal())
    medians = [
        [table[here] for here in place] for table in (DOWN_MEDIAN_MBIT_PER_S, UP_MEDIAN_MBIT_PER_S)
    ]
    rates = better * np.array(medians) * np.exp(wave * [SIGMA[here] for here in place])
    ride_s = lasts_s["ride"]
    begin_s = lasts_s["home"] + lasts_s["walk"]
    for per_min, length in (
        (TUNNELS_PER_MIN[kind], TUNNEL_S[kind]),
        (HANDOVERS_PER_MIN, HANDOVER_S),
    ):
        for _ in range(int(stream.poisson(per_min * ride_s / 60.0))):
            at_s = begin_s + stream.uniform(0.0, ride_s)
            end_s = at_s + between(length)
            rates[:, int(at_s // SAMPLE_S) : int(end_s // SAMPLE_S)] = 0.0
    return np.round(rates * BIT_PER_MBIT / BIT_PER_KBIT, -2) * BIT_PER_KBIT


def generate(num_commuters: int = NUM_COMMUTERS, seed: int = SEED) -> NetTrace:
    """Generate the trace; commuter i's record depends on (seed, i) alone.

    Args:
        num_commuters: number of records.
        seed: root seed of their streams.
    """
    commutes = [commute(person, seed) for person in range(num_commuters)]
    sizes = np.array([rates.shape[1] for rates in commutes])
    rates = np.concatenate(commutes, axis=1)
    step_ms = SAMPLE_S * MS_PER_S
    return NetTrace(
        name="commute-5g",
        record_ids=tuple(str(person) for person in range(num_commuters)),
        span_ms=sizes * step_ms,
        offsets=np.append(0, np.cumsum(sizes)),
        times_ms=np.concatenate([np.arange(size) for size in sizes]) * step_ms,
        down_bit_per_s=rates[0],
        up_bit_per_s=rates[1],
    )


def figures(trace: NetTrace) -> str:
    """Return the generated part of README.md: parameters and statistics."""
    names = list(globals())
    first, last = names.index("SAMPLE_S"), names.index("HANDOVER_S")
    parameters = "\n".join(f"| {name} | {globals()[name]} |" for name in names[first : last + 1])
    assert trace.up_bit_per_s is not None
    rows = []
    for way, rates in (("down", trace.down_bit_per_s), ("up", trace.up_bit_per_s)):
        mbit_per_s = rates / BIT_PER_MBIT
        percentiles = np.percentile(mbit_per_s, [10, 50, 90])
        shown = " | ".join(f"{value:.1f}" for value in (*percentiles, mbit_per_s.mean()))
        rows.append(f"| {way} | {shown} | {100.0 * (rates == 0.0).mean():.1f} % |")
    minutes = trace.span_ms / MS_PER_S / 60.0
    return f"""
## Parameters

SEED = {SEED}, NUM_COMMUTERS = {NUM_COMMUTERS}

| constant | value |
|---|---|
{parameters}

## Statistics

{trace.num_records} records of {minutes.min():.0f} to {minutes.max():.0f} minutes, \
{minutes.mean():.0f} on average; {trace.times_ms.size} samples.

| way | p10 Mbit/s | p50 | p90 | mean | outage |
|---|---|---|---|---|---|
{chr(10).join(rows)}
"""


def readme(trace: NetTrace, before: str) -> str:
    """Return README.md with new figures; the text before the mark is kept."""
    return before.partition(FIGURES_MARK)[0] + FIGURES_MARK + figures(trace)


def main() -> None:
    """Rewrite the folder of this script."""
    trace = generate()
    folder = Path(__file__).resolve().parent
    before = (folder / "README.md").read_text(encoding="utf-8")
    write_net_trace(trace, folder, readme=readme(trace, before))
    for path in sorted(folder.glob("*.gz")):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
