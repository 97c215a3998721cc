"""Parts of a run, from which a server is made."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetsim.contracts import Progress, Recorder, Selector
from fleetsim.engine.servers.global_model import Learning
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.engine.servers.waiting_clients import EnergySettings
from fleetsim.fleet.population import Fleet


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a run."""

    fleet: Fleet
    learning: Learning
    selector: Selector
    recorder: Recorder
    energy: EnergySettings
    seed: int
    clients_hash: str | None = None
    user_selector: UserPart | None = None
    """Name of the selector if it is of the user's own; None: it is one of fleetsim."""
    on_progress: Callable[[Progress], None] | None = None
