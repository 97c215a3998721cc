"""Usage records of the people whose data the clients have.

With `fleet.usage.pair: owner` the names of the data set's natural clients are the names of the
users of the trace, as in ExtraSensory, whose files hold both. The natural partition then draws
clients among the owners who have a record, and a client follows the record of its owner.
"""

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted


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
