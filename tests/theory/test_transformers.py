"""Transformers count as matrix products, whose rate on boards was measured on one: BERT-base."""

import numpy as np
import pytest

from fleetsim.contracts import ModelCost, Work, WorkKind
from fleetsim.fleet.devices.compute import unloaded_s
from fleetsim.fleet.devices.profile import load_device

# BERT-base, 12 blocks of width 768, on 256 tokens: 24 t w^2 of the linear layers and 4 t^2 w of
# attention each. 110 M parameters.
LINEAR_FLOP, ATTENTION_FLOP = 12 * 24 * 256 * 768**2, 12 * 4 * 256**2 * 768
# A block launches four linear layers of its attention, the attention, and two behind it.
BERT = ModelCost(
    {"gemm": LINEAR_FLOP + ATTENTION_FLOP}, 110_000_000, 440_000_000, num_layers=12 * 7
)


# One batch of 4 takes a TX2's GPU 1.7 s; slow-down of the Nano's GPU 2 (UbiquitousLearning/
# FedAdapter@8e27f2e). Fits: the devices' phi of gemm come from them.
@pytest.mark.parametrize(("device", "batch_s"), [("jetson-tx2", 1.7), ("jetson-nano-gpu", 3.4)])
def test_a_batch_of_bert_takes_the_boards_the_measured_time(device: str, batch_s: float) -> None:
    compute, work = load_device(device).compute, Work(WorkKind.TRAIN, epochs=1)
    [seconds] = unloaded_s(compute, BERT, work, num_samples=np.array([4]), batch_size=4)

    assert seconds == pytest.approx(batch_s, rel=0.01)
