"""Fixtures that several tests of the arithmetic of clients share."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fleetsim.kernels.cpu import numerical_platform, whole_products
from fleetsim.kernels.stacked import client_products

# As in a run: small operations wait for a second thread longer than they take.
torch.set_num_threads(1)


@pytest.fixture
def whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that are bytes are multiplied as such, whatever the machine and their number.

    The product itself is a slow one, as not every machine has an exact one of bytes.
    """

    def multiply(left: Tensor, right: Tensor) -> Tensor:
        assert left.element_size() == right.element_size() == 1
        return (left.long() @ right.long()).int()

    monkeypatch.setattr(whole_products, "multiply", multiply)
    chosen = replace(numerical_platform.forms(), bytes_as_whole_numbers=True)
    monkeypatch.setattr(client_products, "forms", lambda: chosen)
    monkeypatch.setattr(client_products, "_MIN_WHOLE", 1)
