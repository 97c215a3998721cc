"""Data and phone of one person: clients that follow the usage record of the owner of their data.

With `fleet.usage.pair: owner` the names of the data set's natural clients are the names of the
users of the trace, as in ExtraSensory, whose files hold both. The natural partition then draws
clients among the owners who have a record, and a client follows the record of its owner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.settings import FleetSettings
from fleetsim.fleet.usage.loading import load_trace
from fleetsim.quoting import quoted


def paired_users(settings: FleetSettings, files: HardwareFiles | None = None) -> set[str] | None:
    """Return the names of the users whose owners' data may be used; None: those of any owner.

    Raises:
        ScenarioError: the trace is not there.
        DataError: a file of it, or of a device, is wrong.
    """
    if settings.usage.pair is None:
        return None
    profiles = [p for name in settings.assigned_devices for p in load_devices(name, files=files)]
    if not settings.has_usage(profiles):
        return None
    trace = load_trace(settings.usage, seed=0)
    assert trace is not None  # `pair` without a trace is refused
    return set(trace.user_ids)


def users_of_owners(user_ids: Sequence[str], owners: Sequence[str]) -> IntArray:
    """Return the user of the trace whom each client follows [N], by the name of its owner.

    Args:
        user_ids: name of every user of the trace.
        owners: name of the owner of every client's data [N].

    Raises:
        ScenarioError: an owner has no record.
    """
    number = {name: index for index, name in enumerate(user_ids)}
    for client, owner in enumerate(owners):
        if owner not in number:
            raise ScenarioError(
                f"fleet.usage.pair = 'owner': client {client} has the data of owner"
                f" {quoted(owner)}, who is none of the {len(number)} users of the trace, such as"
                f" {quoted(user_ids[0])}; name the trace of the same people, or leave pair out"
            )
    return np.array([number[owner] for owner in owners], dtype=np.int64)
