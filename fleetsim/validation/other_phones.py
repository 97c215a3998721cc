"""Scaling from phone to phone by inference latency, on three phones that FLASH timed."""

import dataclasses
import itertools

from fleetsim.fleet.devices.profile import ComputeProfile, load_device
from fleetsim.learning.local.measured_networks import measured_cost
from fleetsim.units import FLOP_PER_GFLOP
from fleetsim.validation import measurements
from fleetsim.validation.phones import batch_s
from fleetsim.validation.tables import Check, Section, SummaryLine, filled

_FROM = "galaxy-note-10"
_TO = ("redmi-note-8", "nexus-6")
_TASKS = ("FEMNIST", "CelebA", "Reddit", "Shakespeare")
_LATENCY_MS = {_FROM: 105.0, "redmi-note-8": 264.0, "nexus-6": 321.0}
"""ResNet inference, Carkham/FLHetBench@633c071 data/training_latency.json."""
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
    profiles = {phone: load_device(phone).compute for phone in (_FROM, *_TO)}

    def check(what: str, phone: str, task: str, seconds: float) -> Check:
        actual_s, _ = measured[phone, task]
        return Check(what, "prediction", actual_s, seconds, "s", measurements.FLASH)

    scaled: dict[str, list[Check]] = {phone: [] for phone in _TO}
    rows = []
    for phone, task in itertools.product(_TO, _TASKS):
        base_s, size = measured[_FROM, task]
        over_base = base_s / batch_s(profiles[_FROM], costs[task], size)
        by_latency, by_profile = (
            check(task, phone, task, over_base * batch_s(other, costs[task], size))
            for other in (_by_latency(phone), profiles[phone])
        )
        scaled[phone].append(by_latency)
        rows.append((phone, task, base_s, by_latency, by_profile))
    engine = []
    for phone, of in profiles.items():
        times = [(measured[phone, task], costs[task]) for task in _TASKS]
        ratios = [actual_s / batch_s(of, cost, size) for (actual_s, size), cost in times]
        engine.append((phone, ratios))
    layers = []
    for phone, task in itertools.product(profiles, ("Reddit", "Shakespeare")):
        seconds = batch_s(_of_layers(phone), costs[task], measured[phone, task][1])
        layers.append(check(f"`{phone}`, {task}", phone, task, seconds))
    text = filled(
        "other_phones",
        source=measurements.FLASH,
        rows=rows,
        scaled=scaled,
        tasks=_TASKS,
        engine=engine,
        layers=layers,
    )
    verdicts = [
        SummaryLine.of(f"From Galaxy Note10 to {phone} by latency", scaled[phone]) for phone in _TO
    ]
    lstm = SummaryLine.of("LSTM times from layer rates", layers)
    return Section("Phones: from one to another", text, (*verdicts, lstm))
