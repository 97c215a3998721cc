"""Peak memory of an SGD step in the `mnn` engine, beside readings."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.memory import ENGINES, EngineMemory, needed_byte
from fleetsim.learning.local.measured_networks import measured_memory
from fleetsim.units import BYTE_PER_MIB
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, number, percent, table

_HEAD = ("network", "batches", "measured MiB", "model MiB", "error", "error of the repeated fit")


_step = cache(measured_memory)


def needed_mib(engine: EngineMemory) -> FloatArray:
    """Return the memory that the model gives an engine at each reading."""
    readings = measurements.table("mnn-memory")
    return np.array(
        [
            float(needed_byte(engine, _step(network), np.array([size]))[0]) / BYTE_PER_MIB
            for network, size in zip(readings["network"], readings["batch_size"], strict=True)
        ]
    )


@cache
def fit() -> EngineMemory:
    """Return the four figures of an engine with the least squares of relative errors."""
    resident_mib = measurements.table("mnn-memory")["resident_mib"].to_numpy()

    def errors(logs: FloatArray) -> FloatArray:
        return np.asarray(needed_mib(_engine(logs)) / resident_mib - 1.0)

    result = least_squares(errors, np.log([64.0, 2.0, 2.0, 2.0]), xtol=1e-12)
    return _engine(result.x)


def _engine(logs: FloatArray) -> EngineMemory:
    base_mib, state, sample, unfolded = np.exp(logs).tolist()
    return EngineMemory(base_mib * BYTE_PER_MIB, state, sample, unfolded)


def _range(errors: pd.Series[float]) -> str:
    return f"{percent(errors.min())} to {percent(errors.max())}"


def section() -> Section:
    """Return the section: readings, the engine as shipped, and the repeated fit."""
    shipped, again = ENGINES["mnn"], fit()
    readings = measurements.table("mnn-memory").assign(
        model_mib=needed_mib(shipped), refit_mib=needed_mib(again)
    )
    checks = [
        Check(f"{name}, {size}", "fit", measured, model, "MiB", measurements.MNN)
        for name, size, measured, model, _ in measurements.rows(readings)
    ]
    rows = [
        (
            network,
            ", ".join(map(str, of_network["batch_size"])),
            ", ".join(map(number, of_network["resident_mib"])),
            ", ".join(map(number, of_network["model_mib"])),
            _range(of_network["model_mib"] / of_network["resident_mib"] - 1.0),
            _range(of_network["refit_mib"] / of_network["resident_mib"] - 1.0),
        )
        for network, of_network in measurements.groups(readings, "network")
    ]
    engines = table(
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

{engines}

Tests compare `autograd` with torch's own allocator ([memory](models/memory.md)); no board's or
instance's memory was measured during training.
"""
    return Section("Peak memory", text, (SummaryLine.of("Peak memory, MNN", checks),))
