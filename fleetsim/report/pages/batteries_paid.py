"""Share of their batteries that a run took from its clients."""

from dataclasses import dataclass

from fleetsim.record.measures.ledger import COMPONENTS
from fleetsim.record.saved_run import Run
from fleetsim.report import quantities


@dataclass(frozen=True, slots=True)
class Paid:
    """Joules of tasks and waiting as shares of full batteries, over the clients that have one."""

    mean_fraction: float
    most_fraction: float
    client: int
    """Client that paid most; the first of equals."""
    device: str
    num_clients: int


def paid(run: Run) -> Paid | None:
    """Return what batteries paid; None without batteries, a clients table, or their capacities."""
    if run.manifest.status != "done" or "battery_capacity_j" not in run.clients:
        return None
    clients = run.clients[run.clients["battery_capacity_j"].notna()]
    if clients.empty:
        return None
    columns = [column for column in COMPONENTS.values() if column in clients]
    shares = clients[columns].sum(axis=1) / clients["battery_capacity_j"]
    most = clients.iloc[int(shares.to_numpy().argmax())]
    return Paid(
        mean_fraction=float(shares.mean()),
        most_fraction=float(shares.max()),
        client=int(most["client"]),
        device=str(most["device"]),
        num_clients=len(clients),
    )


def words(found: Paid) -> str:
    """Return what batteries paid as the end of a sentence, in percent of a full battery."""
    return (
        f"{_percent(found.mean_fraction)} of a full battery on average over"
        f" {found.num_clients:,} clients, {_percent(found.most_fraction)} at worst"
        f" ({found.device} #{found.client})"
    )


def _percent(fraction: float) -> str:
    return f"{quantities.digits(100.0 * fraction)} %"
