"""People of a usage trace whose data may be used, with `fleet.usage.pair`."""

from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.settings import FleetSettings
from fleetsim.fleet.usage.loading import load_trace


def paired_users(settings: FleetSettings, files: HardwareFiles | None = None) -> set[str] | None:
    """Return the names of the users whose owners' data may be used; None: those of any owner."""
    if settings.usage.pair is None:
        return None
    profiles = [p for name in settings.assigned_devices for p in load_devices(name, files=files)]
    if not settings.has_usage(profiles):
        return None
    trace = load_trace(settings.usage, seed=0)
    assert trace is not None  # `pair` without a trace is refused
    return set(trace.user_ids)
