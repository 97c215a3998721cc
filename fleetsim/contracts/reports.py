"""Reports of tasks, resources of clients and evaluations of models."""

from dataclasses import dataclass
from typing import NamedTuple

from fleetsim.contracts.work import Arrays, Outcome, Parameters, Purpose


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that a client reports about itself, as of that moment."""

    flop_per_s: float
    """Rate of convolutions in training on the idle device, from its profile."""
    ram_byte: int
    load_fraction: float
    """Share of the processor that the owner uses."""
    is_charging: bool
    is_unmetered: bool
    battery_fraction: float | None
    """Battery level; None: mains-powered."""
    samples_per_s: float
    """Samples per second of an epoch of the scenario's training, at this load."""
    down_bit_per_s: float
    """Rate of its link at that moment."""
    up_bit_per_s: float
    free_ram_byte: float | None = None
    """Free memory; None in worlds without a memory model."""


class Report(NamedTuple):
    """Report of one task: only what a real server could know.

    `outcome` is coarse: a server sees an answer, silence until the deadline (late), a broken
    connection (offline, whatever the cause), or a cancellation of its own.
    """

    client: int
    purpose: Purpose
    outcome: Outcome
    dispatched_at_s: float
    finished_at_s: float
    """Moment at which the answer arrived, or the server stopped waiting for it."""
    num_samples: int
    """Number of samples of the work."""
    download_s: float = 0.0
    """Phase times as the client measured them; 0 where nothing was delivered."""
    compute_s: float = 0.0
    upload_s: float = 0.0
    loss: float | None = None
    """Mean local loss: over the last local epoch (train) or the samples asked for (evaluate).
    None if nothing was delivered or the run does not train."""
    loss_rms: float | None = None
    """Root mean square of the per-sample losses of the same samples."""
    accuracy: float | None = None
    """Accuracy on the samples asked for (evaluate only)."""
    vector: Parameters | None = None
    """New parameters (train) or gradient (gradient), when delivered."""
    update_norm: float | None = None
    """Euclidean distance of the new parameters from `base`, computed by the client; reported where
    training was delivered and the parameters themselves are not uploaded."""
    energy_j: float | None = None
    """Joules of the task, as the client reports them; None if nothing was delivered."""
    resources: Resources | None = None
    """Resources of the client, if the probe asked for them and was delivered."""
    base: Parameters | None = None
    """Model from which the work started [P], as the server sent it; train tasks only."""
    refused: str | None = None
    """Reason for which the server refused the update."""
    staleness: int = 0
    """Versions of the global model between `base` and the aggregation; 0 in a synchronous run."""
    completed_fraction: float = 1.0
    """Completed local steps divided by those asked for, as the client reports them; below 1 where
    the client was interrupted and handed in what was done."""
    weight_fraction: float = 1.0
    """Factor by which the server multiplies the answer's weight in the aggregation."""
    epoch_losses: tuple[float, ...] | None = None
    """Mean loss of each local epoch that was begun, of which `loss` is the last. Reported where
    training was delivered and the work asked for it. The first is the loss of the samples under the
    received model, measured while training takes its steps."""
    weight: float | None = None
    """Weight of the answer in the aggregation, instead of the aggregator's own, if the selector
    gave one."""
    is_share: bool = False
    """True if `weight` is a share of the next model, used as it is and not in proportion to the
    others."""
    sent: Arrays | None = None
    """Arrays that the client's own training uploaded beside the model, when delivered."""
    metrics: dict[str, float] | None = None
    """Numbers that the client's own training tells of its task, when delivered."""

    @property
    def is_delivered(self) -> bool:
        """True if the answer arrived in time."""
        return self.outcome is Outcome.DELIVERED

    @property
    def duration_s(self) -> float:
        """Seconds from dispatch to answer; a lower bound where there was no answer."""
        return self.finished_at_s - self.dispatched_at_s


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Accuracy and loss of a model on samples of the server; None in a run without training."""

    accuracy: float | None
    loss: float | None
