"""Trained parameters of a network as one vector [T], without its buffers."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def trained(model: nn.Module) -> list[nn.Parameter]:
    """Return the trained parameters of a network, each once, in their order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def vector_of(parameters: Sequence[Tensor]) -> NDArray[np.float32]:
    """Return parameters as a vector [T], a copy in their number type."""
    with torch.no_grad():
        vector: NDArray[np.float32] = torch.cat([p.flatten() for p in parameters]).cpu().numpy()
    return vector


def parts_of(vector: NDArray[np.float32], parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return a vector [T] as tensors of the parameters' shapes, on their device."""
    flat = torch.tensor(vector, device=parameters[0].device)
    split = torch.split(flat, [parameter.numel() for parameter in parameters])
    return [part.view_as(p) for part, p in zip(split, parameters, strict=True)]
