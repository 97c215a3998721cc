"""Settings of the steps of local training, without torch."""

from typing import Annotated, Literal, Self

from annotated_types import Ge, Le, Lt
from pydantic import model_validator

from fleetsim.counts import Batching, LastBatch
from fleetsim.learning.local.loss_settings import LossSettings, OfModelSettings
from fleetsim.learning.local.optimizer_settings import OptimizerSettings, SgdSettings
from fleetsim.schema.key_conditions import TRAINING, by_key
from fleetsim.schema.ranges import Epochs, Gain, Samples, StepFactor, Steps
from fleetsim.settings import Settings

Precision = Literal["float32", "mixed"]
"""Precision of training; `mixed` is bfloat16 arithmetic on float32 weights."""


class AugmentationSettings(Settings):
    """Random changes of the samples of each training step, in the order of the keys."""

    acts_if = by_key(
        flip_chance=TRAINING, crop_padding=TRAINING, noise_sd=TRAINING, mixup_alpha=TRAINING
    )

    flip_chance: Annotated[float, Ge(0), Le(1)] = 0.0
    """Chance that an image is mirrored left to right."""
    crop_padding: Annotated[int, Ge(0), Le(10_000)] = 0
    """Pixels of zeros around an image, from which a part of its own size is cut at random."""
    noise_sd: Annotated[float, Ge(0), Le(1e6)] = 0.0
    """Standard deviation of normal noise that is added to every number of a sample."""
    mixup_alpha: Annotated[float, Ge(0), Le(1e6)] = 0.0
    """Both parameters of the Beta distribution of the share by which each sample of a batch is
    mixed with another one of it; 0: samples are not mixed."""

    @property
    def is_none(self) -> bool:
        """True if samples stay as they are."""
        # Asked in every step, so no other object is made to compare with: all defaults are 0.
        return not any(vars(self).values())

    def fault(self, sample_shape: tuple[int, ...], *, are_numbers: bool) -> tuple[str, str] | None:
        """Return the key that does not suit such samples and the reason; None if all do.

        >>> AugmentationSettings(flip_chance=0.5).fault((64,), are_numbers=True)
        ('flip_chance', 'is for images [channels, height, width], and a sample has shape (64,)')
        """
        if not self.is_none and not are_numbers:
            key = next(key for key, value in self if value)
            return key, "changes numbers, and samples are tokens; leave it out"
        for key in ("flip_chance", "crop_padding"):
            if getattr(self, key) and len(sample_shape) != 3:
                return key, (
                    "is for images [channels, height, width], and a sample has shape"
                    f" {sample_shape}"
                )
        return None


class StepSettings(Settings):
    """Length, batches, optimizer and objective of a client's training in one task."""

    acts_if = by_key(max_gradient_norm=TRAINING, label_smoothing=TRAINING, loss=TRAINING)

    epochs: Epochs | None = None
    """Passes over the client's own samples in one task; this or `steps`."""
    steps: Steps | None = None
    """SGD steps in one task, the same number for every client, in as many passes as needed; this or
    `epochs`."""
    batch_size: Samples
    """Samples of one SGD step; the last batch of an epoch may differ, see `last_batch`."""
    last_batch: LastBatch = "keep"
    """Samples that an epoch leaves after its full batches: `keep` is a smaller batch of its own;
    `drop` leaves them out, others in each epoch; `merge` adds them to the last full batch. A client
    with fewer samples than `batch_size` always has one batch of them all."""
    optimizer: OptimizerSettings
    """Optimizer of the local steps, by its kind."""
    proximal_mu: Annotated[StepFactor, Ge(0)] = 0.0
    """Weight of FedProx's proximal term, which holds the weights near the model that the server
    sent; 0 is FedAvg's local objective."""
    max_gradient_norm: Gain | None = None
    """Largest Euclidean norm of a step's gradient over all weights; a larger one is scaled down to
    it. The gradient is that of the loss and the proximal term. null: no limit."""
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of a label that training spreads evenly over all classes."""
    loss: LossSettings = OfModelSettings()
    """Loss that is minimised, by its kind."""
    augmentation: AugmentationSettings = AugmentationSettings()
    """Random changes of the samples of each step."""

    @model_validator(mode="after")
    def _has_one_length(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(
                "give either epochs or steps, the length of a client's training in one task; null"
                " takes one back"
            )
        return self

    def scheduled_steps(self, num_samples: int) -> int:
        """Return the steps of the whole training of a client, over which schedules are laid out.

        >>> options = {"epochs": 2, "batch_size": 50, "optimizer": SgdSettings(learning_rate=0.1)}
        >>> StepSettings(**options).scheduled_steps(101)
        6
        >>> StepSettings(last_batch="drop", **options).scheduled_steps(101)
        4
        """
        if self.steps is not None:
            return self.steps
        return (self.epochs or 0) * self.batching.num_batches(num_samples)

    @property
    def batching(self) -> Batching:
        """Rule by which an epoch is cut into batches."""
        return Batching(self.batch_size, self.last_batch)

    @property
    def has_other_loss(self) -> bool:
        """True if clients minimise another loss than the model's."""
        return not isinstance(self.loss, OfModelSettings)

    @property
    def is_plain(self) -> bool:
        """True if steps are those of SGD with heavy-ball momentum, at one rate in a task.

        Samples and labels are then as they are, without augmentation or smoothing, and the loss is
        that of the model.
        """
        sgd = self.optimizer
        is_sgd = isinstance(sgd, SgdSettings) and sgd.is_heavy_ball
        changes_loss = self.has_other_loss or self.label_smoothing or not self.augmentation.is_none
        return is_sgd and self.max_gradient_norm is None and not changes_loss

    def plain_sgd(self) -> SgdSettings:
        """Return the optimizer of a training that `is_plain`; ValueError: it is not."""
        if not isinstance(self.optimizer, SgdSettings) or not self.is_plain:
            raise ValueError("only plain steps of SGD have this form, see `is_plain`")
        return self.optimizer
