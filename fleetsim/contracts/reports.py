"""What the server learns of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fleetsim.contracts.work import Outcome, Parameters, Purpose


@dataclass(frozen=True, slots=True)
class Resources:
    """What a client says about itself when it is asked; true when it says it."""

    flop_per_s: float
    """Rate of convolutions in training on the idle device (the profile's figure)."""
    ram_byte: int
    load_fraction: float
    """Share of the processor that its owner uses at this moment."""
    is_charging: bool
    is_unmetered: bool
    battery_fraction: float | None
    """None: mains powered."""
    samples_per_s: float
    """Samples that an epoch of the scenario's training goes through in a second, at this load."""
    down_bit_per_s: float
    """Rate of its link at this moment."""
    up_bit_per_s: float
    free_ram_byte: float | None = None
    """Memory that is free; None in worlds where nobody's memory is looked at."""


class Report(NamedTuple):
    """What the server learns of one task; nothing that a real server could not know.

    `outcome` is coarse: a server sees an answer, silence until the deadline (late), a broken
    connection (offline stands for every cause of it), or a cancellation of its own.
    """

    client: int
    purpose: Purpose
    outcome: Outcome
    dispatched_at_s: float
    finished_at_s: float
    """When the answer arrived, or when the server gave up on it."""
    num_samples: int
    """Samples that the work ran over."""
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
    """On the samples asked for (evaluate only)."""
    vector: Parameters | None = None
    """New parameters (train) or gradient (gradient), when delivered."""
    update_norm: float | None = None
    """Euclidean distance of the new parameters from `base`, as the client computes it; told where
    training was delivered and the parameters themselves are not uploaded."""
    energy_j: float | None = None
    """What the client says the task cost it; None if nothing was delivered."""
    resources: Resources | None = None
    """If the probe asked for them and was delivered."""
    base: Parameters | None = None
    """Model that the work started from [P], as the server sent it; train tasks only."""
    refused: str | None = None
    """Why the server refused what was delivered."""
    staleness: int = 0
    """Versions by which the global model has moved on since then; 0 in a synchronous round."""
    completed_fraction: float = 1.0
    """Whole local steps that the answer is made of over those asked for, as the client says; below
    1 where its owner interrupted it and it handed in what was done."""
    weight_fraction: float = 1.0
    """What the server multiplies the answer's weight in the aggregation by, whatever that is."""
    epoch_losses: tuple[float, ...] | None = None
    """Mean loss of each local epoch as far as it got, of which `loss` is the last. Told where
    training was delivered and the work asked for it. The first is what the samples lose under the
    model that the client received, as training sees it: it takes its steps meanwhile."""
    weight: float | None = None
    """What the answer counts in the aggregation, in place of the aggregator's own weight, if the
    selector chose the client with one."""
    is_share: bool = False
    """Whether `weight` is a share of the next model, to be taken as it is, and not in proportion to
    the others'."""

    @property
    def is_delivered(self) -> bool:
        """Whether the answer arrived in time."""
        return self.outcome is Outcome.DELIVERED

    @property
    def duration_s(self) -> float:
        """Seconds from dispatch to answer; a lower bound where there was no answer."""
        return self.finished_at_s - self.dispatched_at_s


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How good a model is on samples of the server's; None in a run without training."""

    accuracy: float | None
    loss: float | None
