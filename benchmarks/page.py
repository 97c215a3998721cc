"""Text of docs/benchmarks.md, made from records of machines: equal records give equal text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks import cells as cell
from benchmarks.contestants import CONTESTANTS, Contestant
from benchmarks.summary import Machine, WorkRecord, ratios
from benchmarks.works import OURS, WORKS, Work, contestant_name

_HEAD = """\
# Benchmarks

Host time of a round in fleetsim and in its peers, with the same data, partition, initial weights,
hyper-parameters and machine. A command writes this page from measurements; do not edit it. To
measure on a machine, which must be idle, and to put its figures on this page, in the place of older
ones of the same processor and number of cores:

```
python -m benchmarks
python -m benchmarks --merge ~/.cache/fleetsim-benchmarks/results/machine.json
```

The first command continues where it was interrupted and takes about an hour and a half on two
cores. `python -m benchmarks --help` explains how to run a part of it. Every table names its date:
fleetsim, adapters and the settings that were tried are those of that day.
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
* **Peers** run in the setting in which they were fastest here (processes, threads). Where
  trials left that open, several settings are measured, and the fastest counts: images in NCHW and
  in NHWC (`channels_last`) in W2 and W4, one torch thread and all in W7 and W8. Each peer has its
  own environment with fleetsim's release of torch. The code that a peer leaves to its users (data,
  network, for some peers the training loop) is in `benchmarks/peers/`; its GPT-2 uses torch's own
  `scaled_dot_product_attention`, which is faster than products and softmax.
* **Cohorts** are drawn by each contestant, except in W7 and W8. Their clients have different
  numbers of samples and take turns in a fixed order, so that a round is the same work for all.
* **Accuracy** is that of the last global model on the server's test set. Each contestant draws its
  own cohorts and batches, so it differs a little. Close values show that the work was the same.
  W2 ends while its accuracy still rises fast, so its check is weak. W4, W5 and W6 have no check:
  their work is equal by its numbers of clients, samples and epochs. That of W7 and W8 is the share
  of positions with the right next token.
"""

_NOTES = """\
## Adaptations for peers

* **Flower** runs one Ray actor per core with one thread each. With two threads in each of two
  actors it is several times slower. Telemetry is off. An actor builds its network once and loads
  the weights of each message into it. In W7 and W8 messages name their clients.
* **pfl** evaluates the sampled users in its first iteration; the metric given to it here costs
  nothing. It does not reshuffle a client's samples between epochs; all others do. Updates are
  weighted by numbers of samples, and in W7 and W8 its processes share clients by them.
* **FedLab** imports torchvision for data sets that are not used. The torchvision that pip installs
  beside a CPU build of torch fails to import (`operator torchvision::nms does not exist`). An empty
  module replaces it. Its average is without weights; it gets the numbers of samples as weights.
* **FLGo**: torch refuses its data set class (`overrides __getitem__ but not __getitems__`), so the
  method is added. Its generator of tasks draws the partition class by class, which does not end
  for labels that are tensors, so the adapter writes the task's files. In W6 its updates take a
  lognormal virtual time. FLGo trains a client at dispatch, so its first aggregation waits for the
  training of all fifty, and each later one for ten, as in fleetsim. As set, it draws clients with
  replacement and trains those that are drawn twice once; it is told to draw without. In W7 and W8
  its average is told to be weighted by numbers of samples.
* **BlazeFL** 3 trains in threads of the free-threaded Python 3.14 (`python3.14t`). It is measured
  where that is on the PATH; elsewhere its column has dashes.
"""

_TITLES = {"mm": "torch.mm", "onednn": "oneDNN"}


def render(machines: Sequence[Machine]) -> str:
    """Return the page of all machines."""
    parts = [_HEAD, _in_short(machines)]
    for machine in machines:
        peak = _peak(machine)
        works = [work for work in WORKS if work.name in machine.works]
        parts += [_facts(machine)]
        parts += [_work(work, machine.works[work.name], peak) for work in works]
        parts.append(_simulator(works, machine))
    return "\n".join(part for part in [*parts, _METHOD, _NOTES] if part)


def claim(machines: Sequence[Machine]) -> str:
    """Return the range of all ratios over processors and works, for this page and the README."""
    flower: list[float] = []
    best: list[float] = []
    for machine in machines:
        for work in (each for each in WORKS if each.name in machine.works):
            record = machine.works[work.name]
            found = {who.name: _fastest(who, work, record) for who in CONTESTANTS}
            known = [ratio for ratio in found.values() if ratio is not None]
            best += [min(known)] if known else []
            flower += [ratio for ratio in [found["flower"]] if ratio is not None]
    return (
        f"a round takes Flower {_range(flower)} times as long as fleetsim, and the best peer"
        f" {_range(best)} times"
    )


def _range(found: Sequence[float]) -> str:
    low, high = cell.times(min(found, default=None)), cell.times(max(found, default=None))
    return low if low == high else f"{low} to {high}"


# --- choice of settings -------------------------------------------------------------------------


def _labels(work: Work) -> dict[str, str]:
    """Labels of all contestants that a record of a work may hold, in the order of the tables."""
    labels = {contestant_name(variant.name): variant.label for variant in work.variants}
    for who in CONTESTANTS:
        labels |= {who.name_in(each): who.label_in(each) for each in who.settings(work)}
    return labels


def _fastest(who: Contestant, work: Work, record: WorkRecord) -> float | None:
    """Ratio of a peer in its fastest setting; None if it was not measured."""
    found = ratios(work, record, map(who.name_in, who.settings(work)))
    return min(found.values(), default=None)


# --- sections -----------------------------------------------------------------------------------


def _in_short(machines: Sequence[Machine]) -> str:
    """Return the section that compares the round of each peer with that of fleetsim."""
    text = (
        "Seconds per round over those of fleetsim, from the medians below, each peer in its\n"
        "fastest setting. A dash: not measured."
    )
    lines = ["## In short", "", text, "", f"Over all processors and works, {claim(machines)}.", ""]
    head = ["", "fleetsim, s/round", *(who.label for who in CONTESTANTS)]
    for machine in machines:
        rows = []
        for work in WORKS:
            if work.name not in machine.works:
                continue
            record = machine.works[work.name]
            ours = record.figures[work.base].round_s if work.base in record.figures else None
            cells = [work.name.upper(), cell.number(ours.median if ours else None, ".4f")]
            rows.append([*cells, *(cell.times(_fastest(who, work, record)) for who in CONTESTANTS)])
        lines += [f"{_title(machine)}:", "", cell.table(head, rows)]
    return "\n".join(lines)


def _title(machine: Machine) -> str:
    dates = sorted({record.measured_on for record in machine.works.values()})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{machine.facts['processor']}, {machine.facts['cores']} cores, {span}"


def _facts(machine: Machine) -> str:
    lines = [f"## {_title(machine)}", ""]
    lines += [f"* {name}: {value}" for name, value in sorted(machine.facts.items())]
    for name, rates in sorted(machine.peaks.items()):
        kind, _, threads = name.partition("_")
        plural = "thread" if threads == "1" else "threads"
        title = f"{_TITLES[kind]} of 2048 x 2048 float32, {threads} {plural}"
        lines.append(f"* {title}: {cell.spread(rates, '.0f')} GFLOP/s")
    for peer, versions in sorted(machine.versions.items()):
        lines.append(f"* {peer}: {', '.join(f'{k} {v}' for k, v in versions.items())}")
    lines += [f"* {peer}: not measured, {why}" for peer, why in machine.not_installed.items()]
    return "\n".join([*lines, ""])


def _peak(machine: Machine) -> float | None:
    """Largest rate of torch.mm on any number of threads, GFLOP/s: the "sgemm peak"."""
    found = [rates.high for name, rates in machine.peaks.items() if name.startswith("mm_")]
    return max(found, default=None)


def _work(work: Work, record: WorkRecord, peak: float | None) -> str:
    """Return the section of one work."""
    labels = _labels(work)
    ratio_of = ratios(work, record, labels)
    ours = set(map(contestant_name, (variant.name for variant in work.variants)))
    head = ["", "s/round", "ratio", "first round, s", "memory, MiB", "cores", "GFLOP/s", "accuracy"]
    rows, faults = [], []
    for name, label in labels.items():
        if name not in record.figures:
            continue
        one = record.figures[name]
        faults += [f"* **{label}** failed: {error}" for error in one.errors]
        if one.round_s is None:
            continue
        rows.append(
            [
                label,
                cell.spread(one.round_s, ".4f"),
                cell.times(ratio_of.get(name)),
                cell.spread(one.first_round_s, ".1f"),
                cell.memory(one),
                cell.number(one.cores, ".2f"),
                cell.rate(one, record.gflop, peak, is_same=name == work.base or name not in ours),
                cell.spread(one.accuracy, ".3f"),
            ]
        )
    lines = [f"### {work.title}", "", cell.table(head, rows)]
    flop = "" if record.gflop is None else f" A round is {record.gflop:.4g} GFLOP."
    counts = f"Rounds of a run: {cell.listed(record.rounds)}. Runs: {cell.listed(record.runs)}."
    lines.append(f"Measured on {record.measured_on}. {counts}{flop}")
    lines += ["", *faults] if faults else []
    return "\n".join([*lines, *_remarks(work, record), ""])


def _remarks(work: Work, record: WorkRecord) -> list[str]:
    """Return the lines below the table of a work."""
    lines: list[str] = []
    if work.tolerance is not None and OURS in record.figures:
        lines += ["", _accuracy_check(work.tolerance, record, _labels(work))]
    others = [(who, each) for who in CONTESTANTS for each in who.settings(work)[1:]]
    tried = {each.label for who, each in others if who.name_in(each) in record.figures}
    for label in sorted({each.label for _, each in others} - tried):
        lines += ["", f"Not measured here: the peers' setting {label}."]
    if len(work.variants) > 1:
        lines += ["", *_dropped(work, record)]
    if work.is_asynchronous:
        absent = [who for who in CONTESTANTS if who.async_note is not None]
        lines += ["", "Not measured:", ""]
        lines += [f"* **{who.label}**: {who.async_note}." for who in absent]
    return lines


def _accuracy_check(tolerance: float, record: WorkRecord, labels: Mapping[str, str]) -> str:
    """Compare the final accuracies with that of fleetsim; return a sentence."""
    ours = record.figures[OURS].accuracy
    if ours is None:
        return ""
    far = [
        f"{label} ({accuracy.median - ours.median:+.3f})"
        for name, label in labels.items()
        if name in record.figures
        and (accuracy := record.figures[name].accuracy) is not None
        and abs(accuracy.median - ours.median) > tolerance
    ]
    if far:
        says = f"Final accuracy differs from fleetsim's by more than {tolerance:g}"
        return f"{says}: {', '.join(far)}."
    return f"Check: all final accuracies are within {tolerance:g} of fleetsim's."


def _dropped(work: Work, record: WorkRecord) -> list[str]:
    """Return a table of the training that dropped clients save."""
    rows = []
    for variant in work.variants:
        name = contestant_name(variant.name)
        cost = record.costs.get(name)
        round_s = record.figures[name].round_s if name in record.figures else None
        if cost is None or round_s is None:
            continue
        cells = [variant.label, f"{cost.num_tasks:g}", cell.number(cost.num_steps, "g")]
        rows.append([*cells, f"{round_s.median:.4f}"])
    if not rows:
        return []
    head = ["", "clients dispatched", "SGD steps computed", "s/round"]
    text = (
        "Dropped clients are not trained. Peers train all fifteen: they do not know which are late."
    )
    return [cell.table(head, rows), text, ""]


def _simulator(works: Sequence[Work], machine: Machine) -> str:
    """Return the section on the host time of the simulator itself."""
    rows = []
    for work in works:
        for variant in work.variants:
            cost = machine.works[work.name].costs.get(contestant_name(variant.name))
            if cost is None:
                continue
            rows.append(
                [
                    f"{work.name.upper()}{variant.label.removeprefix(OURS)}",
                    cell.spread(cost.round_ms, ".2f"),
                    f"{100 * cost.share:.1f} %",
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
    return "\n".join(["### What the simulator costs", "", text, "", cell.table(head, rows)])
