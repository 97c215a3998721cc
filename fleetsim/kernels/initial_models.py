"""Initial models of many clients on the device that trains them, each distinct base once."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fleetsim.contracts import Parameters


def on_device(
    bases: Sequence[Parameters], *, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the distinct bases on a device, and the base of each model.

    Args:
        bases: flat vectors [P], one per model; an array that several models share is copied once.
        device: device of the result.
        dtype: number type of the result.

    Returns:
        (distinct bases [D, P], row of each model's base [K] int64).

    >>> start = np.zeros(3, dtype=np.float32)
    >>> flat, owner = on_device(
    ...     [start, start + 1, start], device=torch.device("cpu"), dtype=torch.float32
    ... )
    >>> flat.shape, owner.tolist()
    (torch.Size([2, 3]), [0, 1, 0])
    """
    distinct = {id(base): base for base in bases}
    row = {key: index for index, key in enumerate(distinct)}
    flat = torch.from_numpy(np.stack(list(distinct.values()))).to(device, dtype)
    owner = torch.from_numpy(np.array([row[id(base)] for base in bases])).to(device)
    return flat, owner
