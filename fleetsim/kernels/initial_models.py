"""Initial models of many clients on the device that trains them, each distinct base once."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fleetsim.contracts import Parameters


def on_device(
    bases: Sequence[Parameters], *, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the distinct bases on a device [D, P], and the row of each model's base [K] int64.

    Bases are flat vectors [P], one per model; an array that several models share is copied once.
    """
    distinct = {id(base): base for base in bases}
    row = {key: index for index, key in enumerate(distinct)}
    flat = torch.from_numpy(np.stack(list(distinct.values()))).to(device, dtype)
    owner = torch.from_numpy(np.array([row[id(base)] for base in bases])).to(device)
    return flat, owner
