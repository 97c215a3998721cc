"""Settings of the augmentation of training samples, without torch."""

from typing import Annotated

from annotated_types import Ge, Le

from fleetsim.schema.key_conditions import TRAINING, by_key
from fleetsim.settings import Settings


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
