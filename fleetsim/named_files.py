"""Which files a scenario names, whether they are there, and how they are found from anywhere.

A name is that of something bundled, a path from the current folder, or a path from the folder of
the scenario's own file.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from fleetsim import bundled, faults
from fleetsim.faults import Fault
from fleetsim.fleet.hardware import MARKET, load_devices
from fleetsim.fleet.population import FleetSettings
from fleetsim.fleet.profile import DeviceProfile, load_radio, wifi_radio


def missing(fleet: FleetSettings, beside: Path | None) -> list[Fault]:
    """Files that a fleet names and that are not there, by the keys that name them.

    Args:
        fleet: the fleet's part of a scenario.
        beside: folder of the scenario's file, where names are looked for too.

    Raises:
        DataError: a device or radio file that is there is wrong.
    """
    found: list[Fault] = []
    profiles: dict[str, DeviceProfile] = {}
    for name in fleet.devices:
        if name != MARKET and find("devices", name, beside) is None:
            found.append((("fleet", "devices", name), not_there("devices", name)))
            continue
        for profile in load_devices(name, beside=beside):
            if profile.name in profiles:
                says = f"is a second device called {profile.name!r} in the tables; rename its file"
                found.append((("fleet", "devices", name), says))
            profiles[profile.name] = profile
    channel = fleet.channel
    for key in ("unmetered_radio", "metered_radio"):
        name = getattr(channel, key)
        if find("radios", name, beside) is None:
            found.append((("fleet", "channel", key), not_there("radios", name)))
        elif key == "metered_radio":
            load_radio(name, beside=beside)
        else:
            for profile in profiles.values():
                if profile.wired is None:
                    wifi_radio(profile, name, beside=beside)
    heats = any(p.kind == "phone" or p.skin is not None for p in profiles.values())
    if fleet.thermal.kind == "skin" and not found and not heats:
        says = "heats nobody: no device is a phone or has a thermal section; leave it out"
        found.append((("fleet", "thermal"), says))
    if channel.kind == "trace" and find("traces", channel.trace, beside) is None:
        found.append((("fleet", "channel", "trace"), not_there("traces", channel.trace)))
    trace = fleet.usage.trace
    if trace is not None and find("traces", trace, beside) is None:
        found.append((("fleet", "usage", "trace"), not_there("traces", trace)))
    return found


def find(kind: bundled.Kind, name: str, beside: Path | None) -> Path | None:
    """Where a name leads; nowhere, if it is empty or no file can be called so."""
    try:
        return bundled.find(kind, name, beside=beside) if name else None
    except OSError:
        return None


def with_absolute_paths(scenario: dict[str, Any], beside: Path | None) -> dict[str, Any]:
    """A resolved scenario with files of the user's own named so that they are found anywhere."""

    def own(kind: bundled.Kind, name: str) -> str:
        if kind == "devices" and name == MARKET:
            return name
        path = find(kind, name, beside)
        return name if path is None or name in bundled.names(kind) else str(path.resolve())

    data = copy.deepcopy(scenario)
    fleet, dataset = data["fleet"], data["task"]["dataset"]
    fleet["devices"] = {own("devices", name): n for name, n in fleet["devices"].items()}
    for key in ("unmetered_radio", "metered_radio"):
        fleet["channel"][key] = own("radios", fleet["channel"][key])
    if "trace" in fleet["channel"]:
        fleet["channel"]["trace"] = own("traces", fleet["channel"]["trace"])
    if fleet["usage"]["trace"] is not None:
        fleet["usage"]["trace"] = own("traces", fleet["usage"]["trace"])
    if dataset.get("folder") is not None:
        home = Path(dataset["folder"]).expanduser()
        near = home if beside is None or not (beside / home).is_dir() else beside / home
        dataset["folder"] = str(near.resolve())
    return data


def not_there(kind: bundled.Kind, name: str) -> str:
    """What is said of a name that leads nowhere."""
    names = bundled.names(kind)
    if kind == "devices":
        names = [*names, MARKET]
    hint = faults.did_you_mean(name, names) or f"; bundled are {', '.join(names)}"
    return f"{name!r} is neither bundled nor a path{hint}"
