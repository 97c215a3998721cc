"""Network and data of the app."""

from functools import lru_cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

DIGITS = 10


class Net(nn.Module):
    """Recurrent network that reads an image of 8 x 8 row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.GRU(8, 32, batch_first=True)
        self.classifier = nn.Linear(32, DIGITS)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores of ten digits."""
        states, _ = self.rows(images)
        return self.classifier(states[:, -1])


@lru_cache(maxsize=1)
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return all images [1797, 8, 8] and labels [1797], shuffled."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(labels))
    pixels = torch.tensor(images[order] / 16.0, dtype=torch.float32)
    return pixels.reshape(-1, 8, 8), torch.tensor(labels[order])


def rows_of(partition: int, num_partitions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a client's rows for training and for evaluation, 4 of 5 for training."""
    mine = torch.arange(partition, 1500, num_partitions)
    cut = max(1, len(mine) * 4 // 5)
    return mine[:cut], mine[cut:]
