"""Published measurements that fleetsim carries, with their sources (measurements/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from fleetsim import bundled
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.traces.csv_table import CsvTable, read_csv_table
from fleetsim.units import FLOP_PER_GFLOP, MS_PER_S, PARAMETERS_PER_MPARAM


@dataclass(frozen=True, slots=True)
class Figure:
    """Published number."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTimes:
    """Seconds of one batch of training, one row each."""

    phone: tuple[str, ...]
    network: tuple[str, ...]
    batch_size: IntArray
    batch_s: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class InferenceTimes:
    """Seconds of a forward pass of one image on a board's GPU, one row each."""

    board: tuple[str, ...]
    network: tuple[str, ...]
    num_layers: IntArray
    forward_flop: FloatArray
    num_parameters: FloatArray
    latency_s: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Resident memory during training, one row each."""

    network: tuple[str, ...]
    batch_size: IntArray
    resident_mib: FloatArray


MNN = "UbiquitousLearning/Benchmark-On-Device-Training@1b3cfeb"
"""Source of `mnn_times` and `mnn_memory`."""
TORCH2TRT = "NVIDIA-AI-IOT/torch2trt@353a703 and @d1e7d4c, docs/benchmarks"
"""Source of `jetson_inference`."""
FEDADAPTER = "UbiquitousLearning/FedAdapter@492f81f, exps_data/draw-cost-energy.py"
"""Source of `bert_batch_s`."""
FLASH = "PKU-Chengxu/FLASH@70e47eb, models/utils/device_util/device_util.py"
"""Source of `flash_times`."""


@cache
def figures() -> Mapping[str, Figure]:
    """Return single numbers by name."""
    table = _table("figures")
    values = table.numbers("value").tolist()
    columns = table.columns
    return {
        name: Figure(value, unit, source)
        for name, value, unit, source in zip(
            columns["name"], values, columns["unit"], columns["source"], strict=True
        )
    }


@cache
def mnn_times() -> TrainingTimes:
    """Return times of five networks on two phones with a Snapdragon 855."""
    return _times("mnn-training-time")


@cache
def flash_times() -> TrainingTimes:
    """Return times of LEAF's networks on three phones, by fleetsim's names; means of FLASH."""
    table = _table("flash-dl4j")
    return TrainingTimes(
        table.columns["phone"],
        table.columns["task"],
        table.whole_numbers("batch_size"),
        table.numbers("batch_s"),
    )


@cache
def mnn_memory() -> Memory:
    """Return memory of five networks on a Meizu 16T."""
    table = _table("mnn-memory")
    return Memory(
        table.columns["network"], table.whole_numbers("batch_size"), table.numbers("resident_mib")
    )


@cache
def bert_batch_s() -> FloatArray:
    """Seconds of a batch by the number of blocks of BERT-base that are trained, 0 to 12 [13]."""
    return _table("bert-tx2").numbers("batch_s")


@cache
def jetson_inference() -> InferenceTimes:
    """Return latencies of PyTorch on Jetson GPUs, single images of 224 x 224."""
    table = _table("jetson-inference")
    return InferenceTimes(
        table.columns["board"],
        table.columns["network"],
        table.whole_numbers("layers"),
        2.0 * table.numbers("gmac") * FLOP_PER_GFLOP,
        table.numbers("mparam") * PARAMETERS_PER_MPARAM,
        table.numbers("latency_ms") / MS_PER_S,
    )


@cache
def radio_table(name: str) -> CsvTable:
    """Return a table of radios and transfers, such as `radio-power`; columns: see the README."""
    return _table(name)


def _times(name: str) -> TrainingTimes:
    table = _table(name)
    return TrainingTimes(
        table.columns["phone"],
        table.columns["network"],
        table.whole_numbers("batch_size"),
        table.numbers("batch_s"),
    )


def _table(name: str) -> CsvTable:
    return read_csv_table(bundled.folder("measurements") / f"{name}.csv")
