"""Parts of a run, from which a server is made."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetsim.contracts import Progress, Recorder, Selector
from fleetsim.engine.event_order import Clock
from fleetsim.engine.servers.checked_selector import CheckedSelector
from fleetsim.engine.servers.global_model import GlobalModel, Learning
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.engine.servers.waiting_clients import EnergySettings
from fleetsim.engine.world import World
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
    """Root seed of the run."""
    clients_hash: str | None = None
    """SHA-256 of who the clients are, for `FleetView`."""
    user_selector: UserPart | None = None
    """Name of the selector if it is of the user's own; None: it is one of fleetsim."""
    on_progress: Callable[[Progress], None] | None = None


@dataclass(frozen=True, slots=True)
class LiveParts:
    """Parts that change during a run, one of each."""

    clock: Clock
    world: World
    model: GlobalModel
    selector: CheckedSelector
