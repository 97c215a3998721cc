import weakref
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.local_sgd import SampleBatch


class NotedDescent:
    """Steps that change nothing; it knows which gradients are still held."""

    def __init__(self) -> None:
        self.noted: list[weakref.ref[Tensor]] = []

    def step(self, gradients: Sequence[Tensor]) -> None:
        self.noted += map(weakref.ref, gradients)

    def num_held(self) -> int:
        return sum(each() is not None for each in self.noted)


class Watched(nn.Linear):
    """Layer that notes the gradients that are held whenever it computes."""

    def __init__(self, descent: NotedDescent) -> None:
        super().__init__(3, 2)
        self.descent, self.held = descent, list[int]()

    def forward(self, inputs: Tensor) -> Tensor:
        self.held.append(self.descent.num_held())
        return super().forward(inputs)


def test_gradients_of_a_step_are_freed_before_the_next_forward_pass():
    descent = NotedDescent()
    module = Watched(descent)
    batch = SampleBatch(torch.ones(4, 3), torch.zeros(4, dtype=torch.int64))
    loss_of = nn.CrossEntropyLoss(reduction="none")
    local_sgd.take([(0, batch)] * 3, module, descent, loss_of)  # type: ignore[arg-type]

    assert len(descent.noted) == 3 * 2
    assert module.held == [0, 0, 0]
