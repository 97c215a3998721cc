"""Tables of what selectors must know, and of the costs of their probes and their choices.

    python -m benchmarks.selector_prices
    python -m benchmarks.selector_prices --only probing --kinds oort afl

Writes three tables of docs/evidence/selector-prices.md, each between two marks, and leaves the
rest of the page as it is:

- needs: what a selector must know, the attribute `demands` of each settings class;
- probing: cost of its probes in virtual time (`benchmarks.probing`), equal on every machine;
- host: cost of its choices on this machine (`benchmarks.choice_times`) in processor time, which
  other processes change less than wall time.

With --kinds the other rows stay as they are in the page. Everything takes about 5 minutes on an
idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from benchmarks import choice_times, machine, probing
from benchmarks.cells import table
from fleetsim.contracts import Selector
from fleetsim.report.quantities import digits
from fleetsim.schema import strict_yaml
from fleetsim.selectors import DEMANDS, SelectorSettings
from fleetsim.selectors.demands import Demand
from fleetsim.units import MS_PER_S

PAGE = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "selector-prices.md"
BLOCKS = ("needs", "probing", "host")
SIZES = (100, 1_000, 10_000, 1_000_000)
_ROW = re.compile(r"^\| ([^|]+) \|.*$", re.MULTILINE)
_HEADS = {
    "needs": ("selector", "the server must know", "for real", "because"),
    "probing": (
        "selector",
        "once: down, byte",
        "up, byte",
        "J",
        "s",
        "a round: down, byte",
        "up, byte",
        "J",
        "s",
        "of the training's J",
        "of its s",
    ),
    "host": (
        "selector",
        *(f"N = {size:,}, ms" for size in SIZES),
        f"set-up and first choice of {SIZES[-1]:,}, s",
    ),
}

Rows = dict[str, tuple[str, ...]]
"""Cells of a table by the name of the row."""


def label(kind: str, variant: str) -> str:
    """Return the name of a row.

    >>> label("survey", "policy: 3"), label("gpfl", "")
    ('`survey`, `policy: 3`', '`gpfl`')
    """
    return f"`{kind}`, `{variant}`" if variant else f"`{kind}`"


def selector_of(kind: str, variant: str, *, size: int, cohort: int) -> Selector:
    """Return a new selector of a row of the demands."""
    text = probing.selector_text(kind, variant, size, cohort)
    given = strict_yaml.parse_value(text, label(kind, variant))
    return TypeAdapter[SelectorSettings](SelectorSettings).validate_python(given).build()


def needs_cells(demand: Demand) -> tuple[str, ...]:
    """Return the cells of a row on the knowledge of the server."""
    return demand.knows, f"**{demand.use}**", demand.because


def probing_cells(prices: probing.Prices) -> tuple[str, ...]:
    """Return the cells of a row on the costs of probes."""
    asked, training = prices.by_round, prices.training
    return (
        *_cost_cells(prices.set_up),
        *_cost_cells(asked),
        _share(asked.energy_j, training.energy_j),
        _share(asked.seconds, training.seconds),
    )


def _cost_cells(cost: probing.Cost) -> tuple[str, ...]:
    seconds, energy_j = digits(cost.seconds), digits(cost.energy_j)
    return f"{cost.down_byte:,.0f}", f"{cost.up_byte:,.0f}", energy_j, seconds


def _share(part: float, whole: float) -> str:
    return f"{digits(100.0 * part / whole)} %"


def host_cells(kind: str, variant: str, demand: Demand) -> tuple[str, ...]:
    """Return the cells of a row on the costs of choices."""
    cells = []
    for size in SIZES:
        cohort, remark = choice_times.COHORT, ""
        if demand.has_sets and size == SIZES[0]:
            size, cohort = probing.NUM_CLIENTS_OF_SETS, probing.COHORT_OF_SETS  # noqa: PLW2901
            remark = f" (N = {size}, K = {cohort})"
        refused = choice_times.refusal(demand, size, cohort)
        if refused is not None:
            cells.append(refused)
            continue
        selector = selector_of(kind, variant, size=size, cohort=cohort)
        times = choice_times.measured(selector, size, cohort, set_up_choices=demand.set_up_choices)
        cells.append(spread_ms(times.choices_s) + remark)
        if size == SIZES[-1]:
            return (*cells, digits(times.first_s))
    return (*cells, "-")


def spread_ms(seconds: Sequence[float]) -> str:
    """Return the median and, in brackets, the smallest and largest, in milliseconds.

    >>> spread_ms([0.004, 0.001, 0.002])
    '2.00 [1.00, 4.00]'
    """
    middle = statistics.median(seconds)
    return "{} [{}, {}]".format(
        *(digits(MS_PER_S * s) for s in (middle, min(seconds), max(seconds)))
    )


def with_rows(page: str, block: str, rows: Mapping[str, tuple[str, ...]], note: str = "") -> str:
    """Return the page with these rows in a block, and a line below; other rows do not change.

    Raises:
        ValueError: a mark is missing or occurs twice.
    """
    begin, end = marks(block)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{PAGE.name} must have {begin!r} and {end!r} once each")
    before, _, rest = page.partition(begin)
    old, _, after = rest.partition(end)
    kept = {match[1]: match[0] for match in _ROW.finditer(old)}
    cells: Rows = {}
    for kind, variants in DEMANDS.items():
        for variant in variants:
            name = label(kind, variant)
            if name in rows:
                cells[name] = rows[name]
            elif name in kept:
                cells[name] = tuple(kept[name].strip("| ").split(" | "))[1:]
    text = table(_HEADS[block], [(name, *cell) for name, cell in cells.items()])
    if block == "needs":
        text = text.replace("---:|", "---|")
    below = f"\n{note}\n" if note else ""
    return f"{before}{begin}\n{text}{below}{end}{after}"


def marks(block: str) -> tuple[str, str]:
    """Return the marks before and after a block."""
    command = "python -m benchmarks.selector_prices"
    return f"<!-- {block}: written by {command} -->\n", f"<!-- end of {block} -->\n"


def main() -> None:
    """Measure and write one block at a time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=BLOCKS, default=BLOCKS, metavar="BLOCK")
    parser.add_argument("--kinds", nargs="+", choices=DEMANDS, default=list(DEMANDS), metavar="K")
    parser.add_argument("--page", type=Path, default=PAGE, help="docs/evidence/selector-prices.md")
    options = parser.parse_args()
    measures: dict[str, Callable[[str, str, Demand], tuple[str, ...]]] = {
        "needs": lambda kind, variant, demand: needs_cells(demand),
        "probing": lambda *row: probing_cells(probing.measured(*row)),
        "host": host_cells,
    }
    todo = [(k, v, d) for k in options.kinds for v, d in DEMANDS[k].items()]
    for block in options.only:
        note = _machine() if block == "host" else ""
        for number, (kind, variant, demand) in enumerate(todo, start=1):
            print(f"{block} {number}/{len(todo)}: {label(kind, variant)}", flush=True)
            rows = {label(kind, variant): measures[block](kind, variant, demand)}
            # Row by row, so that the page is complete after an interrupt.
            page = with_rows(options.page.read_text(encoding="utf-8"), block, rows, note)
            options.page.write_text(page, encoding="utf-8")


def _machine() -> str:
    said: dict[str, Any] = machine.describe()
    parts = [f"{said[key]}" for key in ("processor", "kernel")]
    parts += [f"{said['cores']} cores", f"Python {said['python']}", f"numpy {said['numpy']}"]
    return f"Machine: {', '.join(parts)}; load average {os.getloadavg()[0]:.1f} as it began."


if __name__ == "__main__":
    main()
