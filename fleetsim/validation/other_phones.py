"""Scaling from phone to phone by inference latency, on three phones that FLASH timed."""

import dataclasses

from fleetsim.fleet.devices.profile import ComputeProfile, load_device
from fleetsim.learning.local.measured_networks import measured_cost
from fleetsim.units import FLOP_PER_GFLOP
from fleetsim.validation import measurements
from fleetsim.validation.phones import batch_s
from fleetsim.validation.tables import Check, Section, SummaryLine, number, percent, table

_FROM = "galaxy-note-10"
_TO = ("redmi-note-8", "nexus-6")
_TASKS = ("FEMNIST", "CelebA", "Reddit", "Shakespeare")
_LATENCY_MS = {_FROM: 105.0, "redmi-note-8": 264.0, "nexus-6": 321.0}
"""ResNet inference, Carkham/FLHetBench@633c071 data/training_latency.json."""
_HEAD = (
    *("phone", "task", "Note10, measured", "measured"),
    *("error by latency", "error of the bundled profiles"),
)
_RATES_OF = {_FROM: "flash_note10", "redmi-note-8": "flash_note8", "nexus-6": "flash_nexus6"}


def _measured() -> dict[tuple[str, str], tuple[float, int]]:
    """Return seconds and size of a batch by phone and task."""
    rows = measurements.rows(measurements.table("flash-dl4j"))
    return {(row.phone, row.task): (row.batch_s, row.batch_size) for row in rows}


def _of_layers(phone: str) -> ComputeProfile:
    """Return a device with DL4J's rates of dense and LSTM layers on a phone, and no overhead."""
    known = measurements.numbers()
    dense, lstm = (
        known[f"{_RATES_OF[phone]}_{layer}_gflop_per_s"].value for layer in ("dense", "lstm")
    )
    carrier = load_device(phone).compute
    return dataclasses.replace(
        carrier,
        conv_flop_per_s=dense * FLOP_PER_GFLOP,
        phi={**carrier.phi, "gemm": 1.0, "rnn": lstm / dense},
        dispatch_s=0.0,
        layer_s=0.0,
        parameter_s=0.0,
    )


def _by_latency(phone: str) -> ComputeProfile:
    """Return the Note10 slowed down by the ratio of latencies, with its overheads."""
    base = load_device(_FROM).compute
    slower = _LATENCY_MS[phone] / _LATENCY_MS[_FROM]
    return dataclasses.replace(
        base,
        conv_flop_per_s=base.conv_flop_per_s / slower,
        dispatch_s=base.dispatch_s * slower,
        layer_s=base.layer_s * slower,
        parameter_s=base.parameter_s * slower,
    )


def section() -> Section:
    """Return the section: scaling, bundled profiles on another engine, LSTM by layers."""
    measured, costs = _measured(), {task: measured_cost(task) for task in _TASKS}
    scaled: dict[str, list[Check]] = {phone: [] for phone in _TO}
    rows = []
    for phone in _TO:
        for task in _TASKS:
            (base_s, size), (actual_s, _) = measured[_FROM, task], measured[phone, task]
            base = batch_s(load_device(_FROM).compute, costs[task], size)
            model_s = [
                base_s * batch_s(other, costs[task], size) / base
                for other in (_by_latency(phone), load_device(phone).compute)
            ]
            by_latency, by_profile = (
                Check(task, "prediction", actual_s, s, "s", measurements.FLASH) for s in model_s
            )
            scaled[phone].append(by_latency)
            rows.append(
                (
                    *(f"`{phone}`", task, f"{number(base_s, 4)} s", f"{number(actual_s, 4)} s"),
                    *(percent(by_latency.error), percent(by_profile.error)),
                )
            )
    profiles = {phone: load_device(phone).compute for phone in (_FROM, *_TO)}
    engine = []
    for phone, of in profiles.items():
        times = [(measured[phone, task], costs[task]) for task in _TASKS]
        ratios = (actual_s / batch_s(of, cost, size) for (actual_s, size), cost in times)
        engine.append((f"`{phone}`", *map(number, ratios)))
    layers, layer_rows = [], []
    for phone in profiles:
        for task in ("Reddit", "Shakespeare"):
            actual_s, size = measured[phone, task]
            layers_s = batch_s(_of_layers(phone), costs[task], size)
            what = f"`{phone}`, {task}"
            check = Check(what, "prediction", actual_s, layers_s, "s", measurements.FLASH)
            layers.append(check)
            seconds = (f"{number(x, 4)} s" for x in (actual_s, layers_s))
            layer_rows.append((what, *seconds, percent(check.error)))
    text = f"""\
Phones without a measurement of training have their rate from one that has one, scaled by the ratio
of their ResNet inference latencies. FLASH timed four networks on three phones, with DL4J
({measurements.FLASH}; batches of 10, 100 for Shakespeare; the 10 is its default and inferred).
Predictions for the other two from the Galaxy Note10's time:

{table(_HEAD, rows)}

- **By latency** is the rule itself, and what `market` phones have. A Redmi Note 8 is off by
  {percent(min(c.error for c in scaled["redmi-note-8"]))} to
  {percent(max(c.error for c in scaled["redmi-note-8"]))}: do not trust a single phone's time
  to better than a factor of two. On the Nexus 6 of 2014 it fails
  ({percent(min(c.error for c in scaled["nexus-6"]))}): **do not use it for legacy phones**.
- **Bundled profiles**: the Redmi's overheads per batch are those of the Snapdragon 855, not
  scaled. The Nexus 6's rate was chosen so that *arithmetic* takes the ratio that FEMNIST and
  CelebA took; overheads, scaled by nothing, dilute it, most of all where a batch is small and the
  network wide (FEMNIST).

Phone rates assume an engine of MNN's class. Measured time with DL4J over that of the profile, by
phone and task:

{table(("phone", *_TASKS), engine)}

**LSTM from tables of single layers.** With the rates of dense and LSTM layers that FLASH's look-up
tables have (DL4J), and without the tables' offsets:

{table(("phone, task", "measured", "layers alone", "error"), layer_rows)}

Arithmetic alone explains {percent(min(c.model / c.expected for c in layers), signed=False)} to
{percent(max(c.model / c.expected for c in layers), signed=False)} of these times; the rest are
overheads of that engine, of which fleetsim carries none. Recurrent networks on phones are the
least certain of all.
"""
    verdicts = [
        SummaryLine.of(f"From Galaxy Note10 to {phone} by latency", scaled[phone]) for phone in _TO
    ]
    lstm = SummaryLine.of("LSTM times from layer rates", layers)
    return Section("Phones: from one to another", text, (*verdicts, lstm))
