"""Loading of the usage trace that a scenario names, recorded or synthetic, and of its users.

With `fleet.usage.pair: owner` the names of the data set's natural clients are the names of the
users of the trace, as in ExtraSensory, whose files hold both. The natural partition then draws
clients among the owners who have a record, and a client follows the record of its owner.
"""

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.folder import find_trace
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.synthetic import make_usage
from fleetsim.fleet.usage.usage import UsageSettings
from fleetsim.quoting import quoted


def load_trace(settings: UsageSettings, *, seed: int) -> Trace | None:
    """Read or generate the usage trace of a scenario; None if it has none."""
    if settings.synthetic is not None:
        return make_usage(settings.synthetic, seed=seed)
    if settings.trace is None:
        return None
    path = find_trace(settings.trace, "fleet.usage.trace")
    return read_trace(path, unknown=settings.unknown)


def users_of_owners(user_ids: Sequence[str], owners: Sequence[str]) -> IntArray:
    """Return the user of the trace whom each client follows [N], by the name of its owner [N]."""
    number = {name: index for index, name in enumerate(user_ids)}
    for client, owner in enumerate(owners):
        if owner not in number:
            raise ScenarioError(
                f"fleet.usage.pair = 'owner': client {client} has the data of owner"
                f" {quoted(owner)}, who is none of the {len(number)} users of the trace, such as"
                f" {quoted(user_ids[0])}; name the trace of the same people, or leave pair out"
            )
    return np.array([number[owner] for owner in owners], dtype=np.int64)
