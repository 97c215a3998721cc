"""Tasks: what a client is asked, the task as dispatched, and its result."""

from __future__ import annotations

from typing import NamedTuple

from fleetsim.contracts import Job, Outcome, ProbeRequest, Purpose, Resources, Work


class TrainingRequest(NamedTuple):
    """Training that the server asks of one selected client."""

    client: int
    work: Work
    """Whole training, including the epochs of a probe that it continues."""
    upload_fraction: float = 1.0
    weight: float | None = None
    """Weight of its answer, see `Report.weight`."""
    is_share: bool = False
    """True if the weight is a share of the next model, see `Report.is_share`."""
    continues: Task | None = None
    """Probe of this round whose training the client continues; None: it starts anew."""


class Task(NamedTuple):
    """One piece of work for one client, as dispatched."""

    number: int
    round: int
    request: TrainingRequest | ProbeRequest
    work: Work
    """Work that the client computes in it: without the epochs of a probe that it continues."""
    job: Job | None
    address: tuple[int, ...]
    """Address of its random draws, without the client."""
    version: int
    """Version of the global model that it works on; -1: a model of the selector's own."""
    download_bit: int
    """Bits of the download, those of frozen weights included."""
    upload_bit: int
    dispatched_at_s: float
    more_round_trips: tuple[int, int] = (0, 0)
    """Exchanges of messages beside that of the payload, before and after the work."""
    frozen_bit: int = 0
    """Bits at the beginning of the download that are frozen weights."""

    @property
    def client(self) -> int:
        """Number of the client."""
        return self.request.client

    @property
    def selection(self) -> int:
        """Number of the selection of a training task."""
        return self.address[-1]

    @property
    def purpose(self) -> Purpose:
        """Purpose of the task."""
        return Purpose.TRAIN if isinstance(self.request, TrainingRequest) else Purpose.PROBE

    @property
    def uploads_vector(self) -> bool:
        """True if the server receives the vector that the work yields, if it yields one."""
        return isinstance(self.request, TrainingRequest) or self.request.uploads_vector

    @property
    def asks_resources(self) -> bool:
        """True if the client reports its resources."""
        return isinstance(self.request, ProbeRequest) and self.request.asks_resources

    @property
    def epochs_before(self) -> int:
        """Epochs of the job that the client has computed before, in a probe."""
        if isinstance(self.request, ProbeRequest) or self.request.continues is None:
            return 0
        return self.request.continues.work.epochs


class TaskResult(NamedTuple):
    """Outcome and resource use of an ended task."""

    task: Task
    outcome: Outcome
    finished_at_s: float
    download_s: float
    compute_s: float
    upload_s: float
    downloaded_bit: float
    uploaded_bit: float
    energy_j: tuple[float, ...]
    flop: float
    num_samples: int
    repeated_bit: tuple[float, float]
    """Bits moved in vain, down and up, by transfers that began anew."""
    frozen_bit: float
    """Bits of `downloaded_bit` that are frozen weights, those moved in vain included."""
    completed_fraction: float
    weight_fraction: float
    num_pauses: int
    paused_s: float
    resources: Resources | None
    """Resources that the client reported; None: it was not asked, or did not come so far."""
    refused: str | None = None
    opinion: float | None = None
    """Accuracy that the client measured for the global model, if it was asked for an opinion."""

    @property
    def is_delivered(self) -> bool:
        """True if the answer arrived in time."""
        return self.outcome is Outcome.DELIVERED
