"""Peak memory of an SGD step in the `mnn` engine, beside readings."""

from functools import cache

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.memory import ENGINES, EngineMemory, needed_byte
from fleetsim.learning.local.measured_networks import measured_memory
from fleetsim.units import BYTE_PER_MIB
from fleetsim.validation import measurements
from fleetsim.validation.phones import fitted
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

    start = (64.0 * BYTE_PER_MIB, 2.0, 2.0, 2.0)
    return EngineMemory(
        *fitted(lambda *figures: needed_mib(EngineMemory(*figures)) / resident_mib - 1.0, start)
    )


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
