"""One piece of work for one client, and what has become of it; `course` says how it goes."""

from __future__ import annotations

from dataclasses import dataclass

from fleetsim.contracts import Job, Outcome, Purpose, Resources, Work
from fleetsim.fleet.energy import Component


@dataclass(slots=True)
class Task:
    """One piece of work for one client; what stands below `ticket` is filled in when it ends."""

    task: int
    round: int
    client: int
    purpose: Purpose
    work: Work
    """What the client computes in it."""
    job: Job | None
    """What the trainer is asked; None if nothing is computed."""
    address: tuple[int, ...]
    """Random address of what happens in it, without the client."""
    version: int
    """Version of the global model that it works on; -1: a model of the selector's own."""
    download_bit: int
    upload_bit: int
    uploads_vector: bool
    upload_fraction: float
    """Share of the update that it sends."""
    asks_resources: bool
    dispatched_at_s: float
    weight: float | None = None
    """What the answer counts if the selector says so; see `Report.weight`."""
    is_share: bool = False
    epochs_before: int = 0
    """Epochs of the job that the client has computed before, in a probe that it goes on from."""
    ticket: int | None = None
    """Of its job, once the trainer has it."""
    finished_at_s: float = 0.0
    outcome: Outcome | None = None
    download_s: float = 0.0
    compute_s: float = 0.0
    upload_s: float = 0.0
    energy_j: tuple[float, ...] = (0.0,) * len(Component)
    """By component."""
    enlisted_idle_j: float | None = None
    """Of waiting, after its end, for the server to let the client go; None: not charged."""
    downloaded_bit: float = 0.0
    uploaded_bit: float = 0.0
    flop: float = 0.0
    num_samples: int = 0
    resources: Resources | None = None
    refused: str | None = None
    again_bit: tuple[float, float] = (0.0, 0.0)
    """Moved for nothing, down and up, by transfers that began anew."""
    completed_fraction: float = 1.0
    weight_fraction: float = 1.0
    num_pauses: int = 0
    paused_s: float = 0.0
    opinion: float | None = None
    belief: float | None = None

    @property
    def reported_fraction(self) -> float | None:
        """What part of its training a delivered answer is made of; None for any other task."""
        is_trained = self.purpose is Purpose.TRAIN and self.outcome is Outcome.DELIVERED
        return self.completed_fraction if is_trained else None
