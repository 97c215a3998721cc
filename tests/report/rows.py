"""Rows of the tables, all defaults but for what a test is about."""

from typing import Any

import numpy as np
import pandas as pd

from fleetsim.contracts import Outcome, Purpose, RoundRow, TaskRow
from fleetsim.record import tables


def round_row(round_: int, accuracy: float | None = None, **changes: Any) -> RoundRow:
    """A round that ends after 10 s times its number, and costs 100 J."""
    values: dict[str, Any] = {
        "round": round_,
        "started_at_s": 10.0 * (round_ - 1),
        "finished_at_s": 10.0 * round_,
        "accuracy": accuracy,
        "loss": None if accuracy is None else 1.0,
        "num_eligible": 10,
        "num_probed": 0,
        "num_selected": 4,
        "num_delivered": 3,
        "num_late": 1,
        "num_lost": 0,
        "num_cancelled": 0,
        "aggregated": True,
        "idle_s": 0.0,
        "probe_s": 0.0,
        "waiting_s": None,
        "energy_j": 100.0,
        "energy_probe_j": 0.0,
        "energy_wasted_j": 25.0,
        "energy_total_j": 100.0 * round_,
    }
    return RoundRow(**values | changes)


def task_row(task: int, client: int, device: str = "phone", **changes: Any) -> TaskRow:
    """A delivered train task of round 1: 1 s down, 6 s at work, 3 s up; 2 + 3 + 4 + 5 + 6 J."""
    values: dict[str, Any] = {
        "task": task,
        "round": 1,
        "client": client,
        "device": device,
        "purpose": Purpose.TRAIN,
        "dispatched_at_s": 0.0,
        "download_s": 1.0,
        "compute_s": 6.0,
        "upload_s": 3.0,
        "finished_at_s": 10.0,
        "outcome": Outcome.DELIVERED,
        "energy_compute_j": 2.0,
        "energy_receive_j": 3.0,
        "energy_transmit_j": 4.0,
        "energy_tail_j": 5.0,
        "energy_idle_j": 6.0,
        "download_byte": 1,
        "upload_byte": 1,
        "train_flop": 1.0,
        "num_samples": 1,
        "train_loss": None,
        "staleness": 0,
    }
    return TaskRow(**values | changes)


def round_frame(*rows: RoundRow) -> pd.DataFrame:
    """As `Run.rounds` gives them."""
    return tables.to_frame(tables.from_rows("rounds", rows))


def task_frame(*rows: TaskRow) -> pd.DataFrame:
    """As `Run.tasks` gives them."""
    return tables.to_frame(tables.from_rows("tasks", rows))


def client_frame(device: list[str], num_selected: list[int]) -> pd.DataFrame:
    """Return the columns that figures of selection read."""
    return pd.DataFrame(
        {
            "client": np.arange(len(device)),
            "device": device,
            "num_selected": num_selected,
            "num_delivered": num_selected,
        }
    )
