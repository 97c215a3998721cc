"""Files that a scenario names: checks that they exist, their absolute paths, and their digests.

A name is that of something bundled, or a path from the current folder or the scenario's own.
"""

import copy
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleetsim import bundled
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.devices.assignment import MARKET, load_devices
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.profile import DeviceProfile, RadioProfile
from fleetsim.fleet.devices.thermal import SkinSettings
from fleetsim.fleet.network.fleet_radios import metered_radio, unmetered_radio
from fleetsim.fleet.settings import FleetSettings
from fleetsim.fleet.throttle import skin_of
from fleetsim.host import paths
from fleetsim.quoting import MAX_LINES, quoted
from fleetsim.record import atomic_files
from fleetsim.schema.faults import Fault
from fleetsim.selectors import KINDS
from fleetsim.selectors.learned_weights import weights_of
from fleetsim.settings import Settings

HINT = "restore it, or name another file in the scenario"


def missing(fleet: FleetSettings, files: HardwareFiles) -> list[Fault]:
    """Return faults of files that a fleet names, by key."""
    beside = files.beside
    result: list[Fault] = []
    profiles: dict[str, DeviceProfile] = {}
    for name in fleet.devices:
        is_listed = len(result) < MAX_LINES
        message = None if name == MARKET else _unusable("devices", name, beside, asks=is_listed)
        if message is not None:
            result.append((("fleet", "devices", name), message))
            continue
        for profile in load_devices(name, files=files):
            if profile.name in profiles:
                twice = quoted(profile.name)
                message = f"is a second device called {twice} in the tables; rename its file"
                result.append((("fleet", "devices", name), message))
            profiles[profile.name] = profile
    channel = fleet.channel
    for key in ("unmetered_radio", "metered_radio"):
        name = getattr(channel, key)
        radios: list[RadioProfile] = []
        message = _unusable("radios", name, beside)
        if message is not None:
            result.append((("fleet", "channel", key), message))
        elif key == "metered_radio":
            radios = [metered_radio(name, files=files)]
        else:
            radios = [
                unmetered_radio(profile, name, files=files)
                for profile in profiles.values()
                if profile.wired_bit_per_s is None
            ]
        for of_key, fault_of in (
            ("tx_power_dbm", channel.tx_power_fault),
            ("outage_bit_per_s_per_hz", channel.outage_fault),
        ):
            faults = [fault for radio in radios if (fault := fault_of(radio))]
            result += [(("fleet", "channel", of_key), fault) for fault in faults[:1]]
    heats = any(skin_of(profile) is not None for profile in profiles.values())
    # In a fleet of boards the default has no effect, and a resolved scenario names it.
    is_set = fleet.thermal.kind == "skin" and fleet.thermal != SkinSettings()
    if is_set and not result and not heats:
        message = "heats no client: no device is a phone or has a thermal section; leave it out"
        result.append((("fleet", "thermal"), message))
    network = channel.trace if channel.kind == "trace" else None
    for part, trace in (("channel", network), ("usage", fleet.usage.trace)):
        message = None if trace is None else _unusable("traces", trace, beside)
        if message is not None:
            result.append((("fleet", part, "trace"), message))
    return result


def missing_weights(selector: Settings, beside: Path | None) -> list[Fault]:
    """Return the fault of a selector's weight file that is not there."""
    name = weights_of(selector)
    message = None if name is None else _unusable("weights", name, beside)
    return [] if message is None else [(("server", "selector", "weights"), message)]


def unusable_folder(folder: str | None, beside: Path | None) -> list[Fault]:
    """Return the fault of a data set's folder that cannot be a path; it need not exist yet."""
    try:
        if folder is not None:
            user_folder(folder, beside)
    except ScenarioError as fault:
        return [(("task", "dataset", "folder"), str(fault))]
    return []


def find(kind: bundled.Kind, name: str, beside: Path | None) -> Path | None:
    """Return the path of a name; None if it is empty or leads to nothing."""
    return bundled.find(kind, name, beside=beside) if name else None


def _unusable(
    kind: bundled.Kind, name: str, beside: Path | None, *, asks: bool = True
) -> str | None:
    """Return why a name cannot be used, with a hint if `asks`; None if it can."""
    try:
        if find(kind, name, beside) is not None:
            return None
        also = (MARKET,) if kind == "devices" else ()
        return bundled.not_found(kind, name, also=also) if asks else "is not there"
    except DataError as fault:
        return str(fault)


def user_folder(folder: str, beside: Path | None) -> Path:
    """Return the absolute path of a data set's folder."""
    home = paths.expanded(folder, ScenarioError)
    if beside is not None and paths.is_folder(beside / home, ScenarioError):
        home = beside / home
    paths.kind_of(home, ScenarioError)
    return home.resolve()


def with_absolute_paths(scenario: dict[str, Any], beside: Path | None) -> dict[str, Any]:
    """Return a resolved scenario with absolute paths to the user's own files."""

    def resolved(kind: bundled.Kind, name: str) -> str:
        if kind == "devices" and name == MARKET:
            return name
        path = find(kind, name, beside)
        return name if path is None or name in bundled.names(kind) else str(path.resolve())

    data = copy.deepcopy(scenario)
    fleet, dataset = data["fleet"], data["task"]["dataset"]
    selector = data["server"]["selector"]
    fleet["devices"] = {resolved("devices", name): n for name, n in fleet["devices"].items()}
    chargers = fleet["battery"]["charge_w_of"]
    fleet["battery"]["charge_w_of"] = {resolved("devices", name): w for name, w in chargers.items()}
    for key in ("unmetered_radio", "metered_radio"):
        fleet["channel"][key] = resolved("radios", fleet["channel"][key])
    if "trace" in fleet["channel"]:
        fleet["channel"]["trace"] = resolved("traces", fleet["channel"]["trace"])
    if fleet["usage"]["trace"] is not None:
        fleet["usage"]["trace"] = resolved("traces", fleet["usage"]["trace"])
    # A plug-in may mean something else by this key.
    if selector["kind"] in KINDS and isinstance(selector.get("weights"), str):
        selector["weights"] = resolved("weights", selector["weights"])
    if dataset.get("folder") is not None:
        dataset["folder"] = str(user_folder(dataset["folder"], beside))
    return data


def user_paths(data: dict[str, Any]) -> Iterator[tuple[Path, bool]]:
    """Yield absolute paths in a resolved scenario, each once, and whether the file may travel."""
    fleet, dataset = data["fleet"], data["task"]["dataset"]
    channel, weights = fleet["channel"], data["server"]["selector"].get("weights")
    names = [
        *fleet["devices"],
        *(channel[key] for key in ("unmetered_radio", "metered_radio")),
        channel.get("trace"),
        fleet["usage"]["trace"],
        weights if isinstance(weights, str) else None,
    ]
    for name in dict.fromkeys(names):
        if name is not None and Path(name).is_absolute():
            yield Path(name), True
    folder = dataset.get("folder")
    if folder is not None and Path(folder).exists():
        yield Path(folder), False


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files of a folder."""
    total = hashlib.sha256()
    with atomic_files.one_line_error(path, "cannot be read", HINT):
        for file in files_of(path):
            with file.open("rb") as opened:
                of_file = hashlib.file_digest(opened, "sha256")
            total.update(f"{relative_to(file, path)}\0{of_file.hexdigest()}\n".encode())
    return total.hexdigest()


def carried_digests(data: dict[str, Any]) -> dict[str, str]:
    """Return `digest` of the user's own devices, radios, traces and weights, by path."""
    return {str(path): digest(path) for path, travels in user_paths(data) if travels}


def files_of(path: Path) -> list[Path]:
    """Return the files of a folder, sorted; of a file, itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file())


def relative_to(file: Path, path: Path) -> str:
    """Return the path of a file in a folder; empty if it is the path itself."""
    return "" if file == path else file.relative_to(path).as_posix()
