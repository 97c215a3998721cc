"""Learning task that a scenario asks for, and the same ready to train."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fleetsim.contracts import (
    BoolArray,
    ClientTraining,
    FloatArray,
    IntArray,
    ModelCost,
    Parameters,
    SampleForm,
    Trainer,
)
from fleetsim.learning.aggregation.uploads import CompressionSettings
from fleetsim.learning.models.paper_cost import CostSettings
from fleetsim.training.settings import TaskSettings, TrainerSettings

if TYPE_CHECKING:
    from fleetsim.kernels.base import TrainerData

UNTRAINED = "none"
"""Kind of trainer of a run without training."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Learning task and trainer that a scenario asks for."""

    task: TaskSettings
    """Data set, partition, model and local training."""
    trainer: TrainerSettings
    """Computation on the host."""
    seed: int
    """Root seed of the run."""
    clients_seed: int
    """Seed of the data and of who holds which samples."""
    num_clients: int
    """Size of the fleet N."""
    validation_fraction: float = 0.0
    """Share of the training samples that the server keeps for selectors."""
    measures_memory: bool = False
    """True if `PreparedTask.cost` holds the memory of a step of local training."""
    paired: Collection[str] | None = None
    """Names of the natural clients with a usage record, of which alone clients are made; None: of
    all."""


@dataclass(frozen=True, slots=True)
class TaskSamples:
    """Samples of a task: their shapes, their numbers per client and, unless blank, themselves."""

    form: SampleForm
    """Form for which a network is built."""
    num_samples: IntArray
    """Training samples of every client [N]."""
    num_evaluated: IntArray
    """Samples on which every client evaluates models [N]."""
    label_coverage: FloatArray | None = None
    """Share of all labels that each client's training samples have [N]; None: no single labels."""
    owners: tuple[str, ...] | None = None
    """Name of the natural client that each client is [N]; None: a partition without them."""
    data_sha256: str | None = None
    """SHA-256 of the content of the user's own data set; None: it is none."""
    split_sha256: str | None = None
    """SHA-256 of the rows of the server and of every client; None: a blank data set."""
    data: TrainerData | None = None
    content_sha256: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """Learning task of a scenario, ready to train."""

    samples: TaskSamples
    """Numbers and names of the samples; the data themselves are the trainer's."""
    parameters: Parameters
    """Initial model [P]."""
    buffers: BoolArray
    """True where the flat vector holds a buffer of the model, not a trained parameter [P]."""
    cost: ModelCost
    trainer: Trainer
    platform: dict[str, str]
    """Numerical platform of this process, by feature."""
    trainer_kind: str = UNTRAINED
    """Kind of trainer, `UNTRAINED` without training."""
    trainer_reason: str | None = None
    """Reason for that trainer, for a network or loss of the user's own; None for fleetsim's."""
    forms: dict[str, str] = field(default_factory=dict)
    """Forms of computing that the kernel chose, by name; empty without training."""
    test_labels: IntArray | None = None
    """Labels of the server's test samples [m] or [m, t]; None without training."""
    frozen_sha256: str | None = None
    """SHA-256 of the frozen weights of the network; None: it has none."""
    weights_text: str | None = None
    """Bytes of a user's network that are trained, frozen and buffers, in one line."""
    algorithm: ClientTraining | None = None
    """Own training of the clients; None: the built-in one."""
    paper: CostSettings | None = None
    """Model that exists on paper only; None: a network. `parameters` then has no meaning."""

    @property
    def trainer_text(self) -> str:
        """Trainer, and the reason for it if there is one, in one line."""
        reason = "" if self.trainer_reason is None else f": {self.trainer_reason}"
        return f"trainer {self.trainer_kind}{reason}"

    def upload_byte(self, compression: CompressionSettings) -> int:
        """Return the bytes of one uploaded model: its floats compressed, all else as it is."""
        if self.paper is not None:
            if self.paper.has_wire_sizes:
                return self.paper.upload_byte or self.cost.payload_byte
            return compression.num_byte(self.cost.num_parameters)
        others_byte = self.cost.payload_byte - self.parameters.nbytes
        return others_byte + compression.num_byte(self.parameters.size)
