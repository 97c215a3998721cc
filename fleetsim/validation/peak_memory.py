"""Peak memory of an SGD step in the `mnn` engine, beside readings."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.optimize import least_squares

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.memory import ENGINES, EngineMemory, needed_byte
from fleetsim.learning.local.measured_networks import measured_memory
from fleetsim.units import BYTE_PER_MIB
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, filled

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
    text = filled(
        "peak_memory",
        source=measurements.MNN,
        readings=measurements.groups(readings, "network"),
        shipped=shipped,
        again=again,
    )
    return Section("Peak memory", text, (SummaryLine.of("Peak memory, MNN", checks),))
