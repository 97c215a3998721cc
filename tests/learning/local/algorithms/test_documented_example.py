"""The class of docs/models/own-training.md, as it is printed there."""

import re
from pathlib import Path
from typing import Any

import pytest

from fleetsim.kernels.base import Kernel
from fleetsim.kernels.own_training import OwnTrainingKernel
from tests.learning.side_by_side import SMALL, Client, Fleet, local

PAGE = Path(__file__).parents[4] / "docs" / "models" / "own-training.md"


def test_it_has_15_lines_and_equals_the_built_in_fedprox() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    found: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    fleet = Fleet(SMALL["2nn"](), [Client(11, 2), Client(7, 1)])

    own = fleet.train(OwnTrainingKernel, local(), algorithm=found["FedProx"]())

    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    assert max(fleet.errors(own, fleet.train(Kernel, local(mu=0.5)))) <= 1e-12
    assert own[1].loss == pytest.approx(own[1].loss_rms)
