"""Published measurements that fleetsim carries, with their sources (measurements/README.md)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from fleetsim import bundled
from fleetsim.validation.tables import Check, Kind


@dataclass(frozen=True, slots=True)
class PublishedNumber:
    """Published number."""

    value: float
    unit: str
    source: str

    def check(self, what: str, kind: Kind, model: float) -> Check:
        """Return a model's value beside this one; ratios and shares have no unit."""
        unit = "" if self.unit in ("ratio", "share") else self.unit
        return Check(what, kind, self.value, model, unit, self.source)


MNN = "UbiquitousLearning/Benchmark-On-Device-Training@1b3cfeb"
"""Source of `mnn-training-time` and `mnn-memory`."""
TORCH2TRT = "NVIDIA-AI-IOT/torch2trt@353a703 and @d1e7d4c, docs/benchmarks"
"""Source of `jetson-inference`."""
FEDERATED_VISION = "jafermarq/federated-embedded-vision@17ecd8b"
"""Source of `pytorch-boards`."""
FEDADAPTER = "UbiquitousLearning/FedAdapter@492f81f, exps_data/draw-cost-energy.py"
"""Source of `bert-tx2`."""
FLASH = "PKU-Chengxu/FLASH@70e47eb, models/utils/device_util/device_util.py"
"""Source of `flash-dl4j`."""


@cache
def table(name: str) -> pd.DataFrame:
    """Return a table, such as `radio-power`; columns: see the README."""
    path = bundled.folder("measurements") / f"{name}.csv"
    return pd.read_csv(path, keep_default_na=False)


def rows(data: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a table, with values by the names and in the order of its columns."""
    return data.itertuples(index=False)


def groups(data: pd.DataFrame, *columns: str) -> Iterable[tuple[Any, pd.DataFrame]]:
    """Return the rows with the same values in these columns, in the order of the table."""
    return data.groupby(list(columns) if len(columns) > 1 else columns[0], sort=False)


@cache
def numbers() -> Mapping[str, PublishedNumber]:
    """Return single numbers by name."""
    return {
        row.name: PublishedNumber(row.value, row.unit, row.source) for row in rows(table("figures"))
    }
