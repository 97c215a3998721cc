"""Peak memory of an SGD step in the `mnn` engine, beside readings."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.optimize import least_squares

from fleetsim.contracts import FloatArray, StepMemory
from fleetsim.fleet.devices.memory import ENGINES, EngineMemory, needed_byte
from fleetsim.learning.local.measured_networks import measured_memory
from fleetsim.units import BYTE_PER_MIB
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, Verdict, errors_say, number, percent, table

_HEAD = (
    "network",
    "batches",
    "measured MiB",
    "model MiB",
    "error",
    "error of the repeated fit",
)


@cache
def _steps() -> dict[str, StepMemory]:
    return {
        name: measured_memory(name) for name in dict.fromkeys(measurements.mnn_memory().network)
    }


def needed_mib(engine: EngineMemory) -> FloatArray:
    """Return the memory that the model gives an engine at each reading."""
    readings = measurements.mnn_memory()
    return np.array(
        [
            float(needed_byte(engine, _steps()[network], np.array([size]))[0]) / BYTE_PER_MIB
            for network, size in zip(readings.network, readings.batch_size.tolist(), strict=True)
        ]
    )


@cache
def fit() -> EngineMemory:
    """Return the four figures of an engine with the least squares of relative errors."""
    readings = measurements.mnn_memory()

    def errors(logs: FloatArray) -> FloatArray:
        return needed_mib(_engine(logs)) / readings.resident_mib - 1.0

    found = least_squares(errors, np.log([64.0, 2.0, 2.0, 2.0]), xtol=1e-12)
    return _engine(found.x)


def _engine(logs: FloatArray) -> EngineMemory:
    base_mib, state, sample, unfolded = np.exp(logs).tolist()
    return EngineMemory(base_mib * BYTE_PER_MIB, state, sample, unfolded)


def section() -> Section:
    """Return the section: readings, the engine as shipped, and the repeated fit."""
    readings, shipped, again = measurements.mnn_memory(), ENGINES["mnn"], fit()
    said, refit = needed_mib(shipped), needed_mib(again)
    checks = [
        Check(f"{network}, {size}", "fit", measured, model, "MiB", measurements.MNN)
        for network, size, measured, model in zip(
            readings.network,
            readings.batch_size.tolist(),
            readings.resident_mib.tolist(),
            said.tolist(),
            strict=True,
        )
    ]
    rows = []
    for network in dict.fromkeys(readings.network):
        at = np.array([name == network for name in readings.network])
        measured = readings.resident_mib[at]
        errors, errors_again = said[at] / measured - 1.0, refit[at] / measured - 1.0
        rows.append(
            (
                network,
                ", ".join(map(str, readings.batch_size[at].tolist())),
                ", ".join(number(value) for value in measured.tolist()),
                ", ".join(number(value) for value in said[at].tolist()),
                f"{percent(float(errors.min()))} to {percent(float(errors.max()))}",
                f"{percent(float(errors_again.min()))} to {percent(float(errors_again.max()))}",
            )
        )
    figures = table(
        ("engine `mnn`", "shipped", "repeated fit"),
        [
            ("base", f"{number(shipped.base_byte / BYTE_PER_MIB)} MiB",
             f"{number(again.base_byte / BYTE_PER_MIB)} MiB"),
            ("a, state", number(shipped.state_factor), number(again.state_factor)),
            ("b, sample", number(shipped.sample_factor), number(again.sample_factor)),
            ("c, unfolded", number(shipped.unfolded_factor), number(again.unfolded_factor)),
        ],
    )  # fmt: skip
    text = f"""\
Resident memory of five networks trained by SGD with momentum on a Meizu 16T: {measurements.MNN},
`tools/train/benchmark/MEIZU_Freq_1708800`. Readings above 1 GiB are rounded to a tenth of a GiB.
SqueezeNet in batches of 32 is left out: its growth halves there, as on a phone that swaps.

{table(_HEAD, rows)}

{figures}

Tests compare `autograd` with torch's own allocator ([memory](models/memory.md)); no board's or
instance's memory was measured during training.
"""
    return Section(
        "Peak memory",
        text,
        (Verdict("Peak memory, MNN", "fit", len(checks), errors_say(checks)),),
    )
