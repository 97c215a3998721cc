"""Fleets of some settings, written as a scenario has them."""

import itertools
from typing import Any

import numpy as np

from fleetsim.fleet.batteries.base import Charge
from fleetsim.fleet.population import Fleet, build_fleet
from fleetsim.fleet.settings import FleetSettings
from tests.fleet.one_timeline import Timeline


def fleet_of(devices, *, size, seed=1, samples=100, **settings) -> Fleet:
    """A fleet whose clients all have so many samples."""
    data = {"size": size, "devices": devices, **settings}
    num_samples = np.full(size, samples, dtype=np.int64)
    return build_fleet(FleetSettings.model_validate(data), seed=seed, num_samples=num_samples)


def phase(start_s: float, *segments: tuple[float, float]) -> Timeline:
    """A phase from (seconds, watts); progress is seconds."""
    widths = [width for width, _ in segments]
    progress = np.array([0.0, *itertools.accumulate(widths)])
    return Timeline(start_s + progress, progress, np.array([w for _, w in segments]), True)


def always_on_phones(size: int, battery: dict[str, Any]) -> Fleet:
    """Pixels on the charger for ever, idle."""
    return fleet_of({"pixel-6": 1.0}, size=size, battery=battery)


def phones_with_records(folder, records, span_s, battery, device="pixel-6", **usage) -> Fleet:
    """Phones with records of `t_s,charging,load` lines; `usage.user` is the record of each."""
    folder.mkdir(exist_ok=True)
    rows, users = ["user,t_s,online,charging,unmetered,load"], ["user,span_s"]
    for user, record in enumerate(records):
        for line in record.split():
            t_s, charging, load = line.split(",")
            rows.append(f"u{user},{t_s},1,{charging},1,{load}")
        users.append(f"u{user},{span_s}")
    (folder / "states.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "users.csv").write_text("\n".join(users) + "\n", encoding="utf-8")
    people = {"trace": str(folder), "shift": "none", "kinds": ["phone", "board"], **usage}
    return fleet_of({device: 1.0}, size=len(records), battery=battery, usage=people)


def charge_after(fleet: Fleet, level_j, until_s, *, from_s=0.0, client=0) -> Charge:
    """Battery of one idle client that has this level at a moment, at another [1]."""
    before = fleet.batteries.initial(np.array([level_j]))
    return fleet.batteries.idle(np.array([client]), before, np.array([from_s]), until_s)
