"""ResNet-18 in large batches on devices with 2 GB: clients that fail, and the cost of failing."""

from pathlib import Path

import pytest

from fleetsim.scenario import load
from fleetsim.simulate import run

CHANGES = [
    "task.dataset={kind: blank, input_shape: [3, 32, 32], median_samples: 300, sigma: 0}",
    "task.local.batch_size=256",
    "fleet.devices={t2.small: 0.5, t2.large: 0.5}",
    "fleet.memory={kind: share, free_fraction: [0.5, 0.5], when_short: fails}",
    "server.deadline_s=null", "server.cohort=20", "server.over_commit=1.0", "stop.rounds=2",
]  # fmt: skip
"""Two rounds on instances of 2 and of 8 GB, half of it free."""


@pytest.mark.slow
def test_small_devices_fail_in_their_first_batch_and_are_not_asked_again(tmp_path: Path):
    run_ = run(load("cifar10-resnet18", CHANGES), out=tmp_path / "run", train=False)
    small = run_.tasks[run_.tasks.device == "t2.small"]
    # A forward pass of 256 samples of 1.1108 GFLOP at 12 GFLOP/s, almost all convolutions.
    first_batch_s = 256 * 1.11084544 / 12

    assert set(small.outcome) == {"memory"}
    assert small.compute_s.to_numpy() == pytest.approx(first_batch_s, rel=0.01)
    # In the second round they are not asked again.
    assert run_.rounds.num_lost.tolist() == [10, 0]
