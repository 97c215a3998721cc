"""Parts of the bandits that play a set of clients for several rounds.

- `equations`: arms, indices, rewards and the quick initialisation.
- `slots`: rounds with the same clients, evaluated as one.
- `rehearsals`: slots played in probes, whose models are discarded.
"""

from fleetsim.selectors.bandits.equations import (
    arm_of,
    arms,
    average_opinion,
    index,
    initial_means,
    is_playable,
    require_arms,
    rewarded,
)
from fleetsim.selectors.bandits.rehearsals import Rehearsal
from fleetsim.selectors.bandits.slots import Slot, SlotModel, SlotRounds, ends_slot, slot_of

__all__ = [
    "Rehearsal",
    "Slot",
    "SlotModel",
    "SlotRounds",
    "arm_of",
    "arms",
    "average_opinion",
    "ends_slot",
    "index",
    "initial_means",
    "is_playable",
    "require_arms",
    "rewarded",
    "slot_of",
]
