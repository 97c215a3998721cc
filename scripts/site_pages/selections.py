"""Choices of every selector in one bundled scenario, stored, and drawn on the selectors' pages.

    python -m scripts.site_pages.selections                  # docs/selections.jsonl, 2 minutes
    python -m scripts.site_pages.selections oort afl         # the lines of these alone
    python -m scripts.site_pages.selections --check oort     # compares, and exits with 1

Runs are computed with portable numerics, so that a check holds on any x86-64 processor with AVX2.
The scenario and its seed are the same for all; the bandits over sets, whose sets must be few, have
a smaller fleet.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("FLEETSIM_NUMERICS", "portable")  # read when fleetsim is imported

import fleetsim
from benchmarks import probing
from fleetsim.record import atomic_files
from fleetsim.selectors import DEMANDS
from scripts.site_pages.drawing import path, svg, text

STORE = Path(__file__).resolve().parents[2] / "docs" / "selections.jsonl"
SCENARIO, ROUNDS = "quickstart", 40
WIDTH, HEIGHT, LEFT, BARS, FOOT = 11, 6, 34, 40, 76
"""Units of the drawing: a cell's width and height, left margin, height of bars, and of names."""


def overrides(kind: str) -> dict[str, Any]:
    """Return the overrides of the scenario for a selector with its defaults."""
    has_sets = any(demand.has_sets for demand in DEMANDS[kind].values())
    size, cohort = (probing.NUM_CLIENTS_OF_SETS, probing.COHORT_OF_SETS) if has_sets else (50, 8)
    return {
        "fleet.size": size,
        "server.cohort": cohort,
        "server.selector": probing.selector_text(kind, "", size, cohort),
        "evaluate.validation_fraction": 0.1,
        "stop": f"{{rounds: {ROUNDS}}}",
    }


def chosen(kind: str) -> dict[str, Any]:
    """Run the scenario with a selector; return its clients, its choices and their cost."""
    with tempfile.TemporaryDirectory() as home:
        texts = [f"{key}={value}" for key, value in overrides(kind).items()]
        run = fleetsim.run(SCENARIO, texts, out=Path(home) / "run", workers=1, progress=False)
        rounds, tasks, clients = run.rounds, run.tasks, run.clients
    train = tasks[tasks["purpose"] == "train"]
    by_round = [train[train["round"] == number] for number in rounds["round"]]
    clients = clients.sort_values(["num_samples", "client"], ascending=[False, True])
    return {
        "kind": kind,
        "clients": {
            str(device): rows.tolist() for device, rows in clients.groupby("device")["client"]
        },
        "selected": [rows["client"].tolist() for rows in by_round],
        "not_delivered": [
            rows.loc[rows["outcome"] != "delivered", "client"].tolist() for rows in by_round
        ],
        "probes": int((tasks["purpose"] == "probe").sum()),
        "probe_j": round(float(rounds["energy_probe_j"].sum()), 1),
        "energy_j": round(float(rounds["energy_j"].sum()), 1),
        "probe_s": round(float(rounds["probe_s"].sum()), 1),
        "virtual_s": round(float(rounds["finished_at_s"].iloc[-1]), 1),
        "accuracy": round(float(rounds["accuracy"].iloc[-1]), 3),
    }


def stored() -> dict[str, dict[str, Any]]:
    """Return the stored results by kind."""
    lines = STORE.read_text("utf-8").splitlines() if STORE.exists() else []
    return {one["kind"]: one for one in map(json.loads, lines)}


def figure(result: Mapping[str, Any]) -> str:
    """Return an SVG drawing: a row for each round, a column for each client, and their totals.

    Clients stand by device, those with most samples first.
    """
    order = [client for clients in result["clients"].values() for client in clients]
    column = {client: place for place, client in enumerate(order)}
    counts = Counter(client for cohort in result["selected"] for client in cohort)
    most, num_rounds = max(counts.values(), default=1), len(result["selected"])
    right, floor = LEFT + WIDTH * len(order), BARS + HEIGHT * num_rounds
    missed = [set(clients) for clients in result["not_delivered"]]
    drawn = [
        (column[client], row, client in missed[row])
        for row, cohort in enumerate(result["selected"])
        for client in cohort
    ]
    groups = [(name, len(clients)) for name, clients in result["clients"].items()]
    ends = list(accumulate(num for _, num in groups))
    bars = "".join(
        f"M{LEFT + WIDTH * column[client] + 5.5:g} {BARS - 4}v{-(BARS - 14) * num / most:.1f}"
        for client, num in sorted(counts.items())
    )
    lines = "".join(f"M{LEFT + WIDTH * end} {BARS}V{floor}" for end in ends[:-1])
    numbers = [
        text(LEFT - 6, BARS + HEIGHT * row, str(row), "end")
        for row in (1, *range(10, num_rounds + 1, 10))
    ]
    names = [
        text(LEFT + WIDTH * (end - num / 2), floor + 12, name, "end", turned=-35)
        for (name, num), end in zip(groups, ends, strict=True)
    ]
    parts = [
        path("bars", bars),
        path("lines", lines),
        path("delivered", _cells(drawn, is_missed=False)),
        path("missed", _cells(drawn, is_missed=True)),
        text(LEFT - 6, BARS - 12, str(most), "end"),
        *numbers,
        *names,
    ]
    words = f"Clients that {result['kind']} selects, round by round"
    return svg("selections", right + 4, floor + FOOT, words, parts)


def _cells(drawn: Iterable[tuple[int, int, bool]], *, is_missed: bool) -> str:
    return "".join(
        f"M{LEFT + WIDTH * column + 1} {BARS + HEIGHT * row + 3}h{WIDTH - 2}"
        for column, row, missed in drawn
        if missed == is_missed
    )


def main() -> None:
    """Compute and store the choices of the selectors named, or of all, or compare them."""
    is_check = "--check" in sys.argv
    named = [word for word in sys.argv[1:] if word != "--check"]
    if unknown := set(named) - DEMANDS.keys():
        raise SystemExit(f"selections: no selectors: {', '.join(unknown)}; see its first lines")
    known = stored()
    for kind in named or DEMANDS:
        print(kind, flush=True)
        result = chosen(kind)
        if is_check and result != known.get(kind):
            raise SystemExit(f"{kind}: chooses otherwise; python -m scripts.site_pages.selections")
        known[kind] = result
    if not is_check:
        lines = (
            json.dumps(known[kind], separators=(",", ":")) for kind in DEMANDS if kind in known
        )
        atomic_files.write(STORE, "\n".join([*lines, ""]).encode(), hint="make docs/ writable")


if __name__ == "__main__":
    main()
