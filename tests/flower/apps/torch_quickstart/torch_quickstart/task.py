"""Network, data and training of the app."""

from functools import lru_cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Small convolutional network for images of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        )
        self.classifier = nn.Linear(8 * 4 * 4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores of ten digits."""
        return self.classifier(self.features(images))


@lru_cache(maxsize=1)
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return all images [1797, 1, 8, 8] and labels [1797], shuffled."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(labels))
    return (
        torch.tensor(images[order] / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8),
        torch.tensor(labels[order]),
    )


def load_data(partition: int, num_partitions: int) -> tuple[DataLoader, DataLoader]:
    """Return batches for training and for testing of one client: 4 of 5 of its samples."""
    images, labels = digits()
    mine = torch.arange(partition, 1500, num_partitions)
    cut = max(1, len(mine) * 4 // 5)
    train = TensorDataset(images[mine[:cut]], labels[mine[:cut]])
    test = TensorDataset(images[mine[cut:]], labels[mine[cut:]])
    return DataLoader(train, batch_size=16, shuffle=True), DataLoader(test, batch_size=64)


def train(net: nn.Module, batches: DataLoader, epochs: int, learning_rate: float) -> float:
    """Train and return the mean loss of a batch."""
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=0.9)
    net.train()
    total, num = 0.0, 0
    for _ in range(epochs):
        for images, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total, num = total + loss.item(), num + 1
    return total / num


def test(net: nn.Module, batches: DataLoader) -> tuple[float, float]:
    """Return mean loss and accuracy."""
    net.eval()
    loss, correct, num = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in batches:
            scores = net(images)
            loss += nn.functional.cross_entropy(scores, labels, reduction="sum").item()
            correct += int((scores.argmax(1) == labels).sum())
            num += len(labels)
    return loss / num, correct / num
