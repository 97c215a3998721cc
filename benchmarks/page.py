"""Text of docs/benchmarks.md, made from results alone: equal results give equal text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import cells as cell
from benchmarks import figures as f
from benchmarks.contestants import CONTESTANTS, OURS
from benchmarks.figures import Figures, Spread
from benchmarks.results import Result
from benchmarks.runs import contestant_name
from benchmarks.works import WORKS, Work

_HEAD = """\
# Benchmarks

Host time of a round in fleetsim and in its peers, with the same data, partition, initial weights,
hyper-parameters and machine. A command writes this page from measurements; do not edit it. To
measure again (the machine must be idle; about 40 minutes on two cores):

```
python -m benchmarks
```

`python -m benchmarks --help` explains how to run a part of it. Ratios hold for the machine below
and differ on others.
"""

_METHOD = """\
## How it is measured

* **Seconds per round** cover selection, local training, transfer, aggregation and everything else
  in a round except evaluation. The figure of a run is the median of its rounds without the first.
  The tables give the median over the runs, with the smallest and largest in brackets. Contestants
  take turns (A B C A B C), so that a change of the machine affects all of them.
* **fleetsim** runs by its command (`fleetsim run`) with the whole simulator: virtual clock, fading
  channel, energy meters, invariants, tables and checkpoints on disk. Its fleet consists of
  mains-powered boards. No peer simulates time or energy in its rounds here.
* **First round** is from the start of the process to the end of the first round.
* **Memory** is the largest proportional set size, summed over all processes of the tool, until the
  last round ended, sampled several times a second. In parentheses: until the process ended, which
  for fleetsim includes its report.
* **Cores** are processor time over wall time between the end of the first and of the last round; a
  dash means that this interval was too short to measure.
* **GFLOP/s** are the floating-point operations of the round's training, forward and backward as
  torch counts them, over seconds per round. The operations are the same for all contestants. The
  percentage is of the best rate of `torch.mm` above, the machine's "sgemm peak". oneDNN can exceed
  it where it is faster.
* **Peers** run in the setting in which they were fastest here (processes, threads). Each has its
  own environment with fleetsim's release of torch. The code that a peer leaves to its users (data,
  network, for some peers the training loop) is in `benchmarks/peers/`.
* **Accuracy** is that of the last global model on the server's test set. Each contestant draws its
  own cohorts and batches, so it differs a little. Close values show that the work was the same.
  W2 ends while its accuracy still rises fast, so its check is weak. W4, W5 and W6 have no check:
  their work is equal by its numbers of clients, samples and epochs.
"""

_NOTES = """\
## Adaptations for peers

* **Flower** runs one Ray actor per core with one thread each. With two threads in each of two
  actors it is several times slower. Telemetry is off.
* **pfl** evaluates the sampled users in its first iteration; the metric given to it here costs
  nothing. It does not reshuffle a client's samples between epochs; all others do.
* **FedLab** imports torchvision for data sets that are not used. The torchvision that pip installs
  beside a CPU build of torch fails to import (`operator torchvision::nms does not exist`). An empty
  module replaces it.
* **FLGo**: torch refuses its data set class (`overrides __getitem__ but not __getitems__`), so the
  method is added. Its generator of tasks draws the partition class by class, which does not end
  for labels that are tensors, so the adapter writes the task's files. In W6 its updates take a
  lognormal virtual time. FLGo trains a client at dispatch, so its first aggregation waits for the
  training of all fifty, and each later one for ten, as in fleetsim.
"""

_LABELS = {contestant.name: contestant.label for contestant in CONTESTANTS}


def render(results: Sequence[Result], session: Mapping[str, Any]) -> str:
    """Return the page of all runs of a session, as `results.Store` keeps both."""
    peak = _peak(session)
    parts = [_HEAD, _machine(session)]
    works = [work for work in WORKS if any(result.work == work.name for result in results)]
    parts.append(_summary(works, results))
    parts += [_work(work, _of(results, work), peak) for work in works]
    parts += [_simulator(works, results), _METHOD, _NOTES]
    return "\n".join(part for part in parts if part)


def _of(results: Sequence[Result], work: Work) -> list[Result]:
    return [result for result in results if result.work == work.name]


def _labels(work: Work) -> dict[str, str]:
    """Labels of all contestants that the results of a work may hold, in the order of the tables."""
    ours = {contestant_name(variant.name): variant.label for variant in work.variants}
    return ours | _LABELS


def _figures(work: Work, results: Sequence[Result]) -> dict[str, Figures]:
    """Figures of all contestants that were measured, in the order of the tables."""
    found = {}
    for name in _labels(work):
        runs = [result for result in results if result.contestant == name]
        if runs:
            found[name] = f.figures(name, runs)
    return found


def _round_s(found: Mapping[str, Figures], name: str) -> Spread | None:
    return found[name].round_s if name in found else None


# --- sections -----------------------------------------------------------------------------------


def _machine(session: Mapping[str, Any]) -> str:
    lines = ["## Machine and versions", ""]
    machine: Mapping[str, str] = session.get("machine", {})
    lines += [f"* {name}: {value}" for name, value in machine.items()]
    for kind, rates in sorted(_rates(session).items()):
        lines.append(f"* {kind}: {cell.spread(Spread.of(rates), '.0f')} GFLOP/s")
    for peer, versions in sorted(session.get("versions", {}).items()):
        lines.append(f"* {peer}: {', '.join(f'{k} {v}' for k, v in versions.items())}")
    return "\n".join([*lines, ""])


def _rates(session: Mapping[str, Any]) -> dict[str, list[float]]:
    """Rates of 2048 x 2048 float32 products by library and threads, one per session."""
    titles = {"mm": "torch.mm", "onednn": "oneDNN"}
    found: dict[str, list[float]] = {}
    for peaks in session.get("peaks", []):
        for name, rate in peaks.items():
            kind, _, threads = name.partition("_")
            plural = "thread" if threads == "1" else "threads"
            title = f"{titles[kind]} of 2048 x 2048 float32, {threads} {plural}"
            found.setdefault(title, []).append(rate)
    return found


def _peak(session: Mapping[str, Any]) -> float | None:
    """Largest rate of torch.mm on any number of threads, GFLOP/s: the "sgemm peak"."""
    found = [pair for peaks in session.get("peaks", []) for pair in peaks.items()]
    return max((rate for name, rate in found if name.startswith("mm_")), default=None)


def _summary(works: Sequence[Work], results: Sequence[Result]) -> str:
    """Return the section that compares the round of each peer with that of fleetsim."""
    rows = []
    for work in works:
        if len(work.variants) > 1:
            continue
        found = _figures(work, _of(results, work))
        ours = _round_s(found, OURS)
        cells = [work.name.upper(), cell.median(ours, ".4f")]
        cells += [cell.times(f.ratio(_round_s(found, name), ours)) for name in _LABELS]
        rows.append(cells)
    if not rows:
        return ""
    head = ["", "fleetsim, s/round", *_LABELS.values()]
    text = "Seconds per round over those of fleetsim, from the medians below."
    return "\n".join(["## In short", "", text, "", cell.table(head, rows)])


def _work(work: Work, results: Sequence[Result], peak: float | None) -> str:
    """Return the section of one work."""
    found, labels = _figures(work, results), _labels(work)
    base = contestant_name(work.variants[0].name)
    ours = _round_s(found, base)
    gflop = f.gflop_per_round([result for result in results if result.contestant == base])
    head = ["", "s/round", "ratio", "first round, s", "memory, MiB", "cores", "GFLOP/s", "accuracy"]
    rows, faults = [], []
    for name, one in found.items():
        faults += [f"* **{labels[name]}** failed: {error}" for error in one.errors]
        if one.num_runs == 0:
            continue
        rows.append(
            [
                labels[name],
                cell.spread(one.round_s, ".4f"),
                cell.times(f.ratio(one.round_s, ours)),
                cell.spread(one.first_round_s, ".1f"),
                cell.memory(one),
                cell.median(one.cores, ".2f"),
                cell.rate(one, gflop, peak, is_same=name == base or name in _LABELS),
                cell.spread(one.accuracy, ".3f"),
            ]
        )
    rounds = sorted({result.rounds for result in results})
    runs = sorted({one.num_runs for one in found.values()})
    lines = [f"## {work.title}", "", cell.table(head, rows)]
    said = "" if gflop is None else f" A round is {gflop:.4g} GFLOP."
    lines.append(f"Rounds of a run: {cell.listed(rounds)}. Runs: {cell.listed(runs)}.{said}")
    lines += ["", *faults] if faults else []
    lines += _remarks(work, found, results)
    return "\n".join([*lines, ""])


def _remarks(work: Work, found: Mapping[str, Figures], results: Sequence[Result]) -> list[str]:
    """Return the lines below the table of a work."""
    lines: list[str] = []
    if work.tolerance is not None and OURS in found:
        lines += ["", _accuracy_check(work.tolerance, found)]
    if len(work.variants) > 1:
        lines += ["", *_dropped(work, results)]
    if work.is_asynchronous:
        absent = [who for who in CONTESTANTS if who.async_note is not None]
        lines += ["", "Not measured:", ""]
        lines += [f"* **{who.label}**: {who.async_note}." for who in absent]
    return lines


def _accuracy_check(tolerance: float, found: Mapping[str, Figures]) -> str:
    """Compare the final accuracies with that of fleetsim; return a sentence."""
    ours = found[OURS].accuracy
    if ours is None:
        return ""
    far = [
        f"{_LABELS[name]} ({one.accuracy.median - ours.median:+.3f})"
        for name, one in found.items()
        if name != OURS
        and one.accuracy is not None
        and abs(one.accuracy.median - ours.median) > tolerance
    ]
    if far:
        says = f"Final accuracy differs from fleetsim's by more than {tolerance:g}"
        return f"{says}: {', '.join(far)}."
    return f"Check: all final accuracies are within {tolerance:g} of fleetsim's."


def _dropped(work: Work, results: Sequence[Result]) -> list[str]:
    """Return a table of the training that dropped clients save."""
    rows = []
    for variant in work.variants:
        name = contestant_name(variant.name)
        runs = [result for result in results if result.contestant == name]
        cost, one = f.simulator_cost(runs), f.figures(name, runs)
        if cost is None or one.round_s is None:
            continue
        cells = [variant.label, f"{cost.num_tasks:g}", f"{cost.num_steps:g}"]
        rows.append([*cells, f"{one.round_s.median:.4f}"])
    if not rows:
        return []
    head = ["", "clients dispatched", "SGD steps computed", "s/round"]
    text = (
        "Dropped clients are not trained. Peers train all fifteen: they do not know which are late."
    )
    return [cell.table(head, rows), text, ""]


def _simulator(works: Sequence[Work], results: Sequence[Result]) -> str:
    """Return the section on the host time of the simulator itself."""
    rows = []
    for work in works:
        for variant in work.variants:
            name = contestant_name(variant.name)
            cost = f.simulator_cost([x for x in _of(results, work) if x.contestant == name])
            if cost is None:
                continue
            rows.append(
                [
                    f"{work.name.upper()}{variant.label.removeprefix(OURS)}",
                    cell.spread(cost.round_ms, ".2f"),
                    f"{100 * cost.share.median:.1f} %",
                    f"{cost.num_tasks:g}",
                    cell.spread(cost.task_us, ".0f"),
                ]
            )
    if not rows:
        return ""
    head = ["", "ms/round", "of the round", "tasks in a round", "us/task"]
    text = (
        "Host time of fleetsim's rounds outside training and evaluation: clock, channel, meters,\n"
        "invariants, selection, aggregation, tables and checkpoints. Means over the rounds."
    )
    return "\n".join(["## What the simulator costs", "", text, "", cell.table(head, rows)])
