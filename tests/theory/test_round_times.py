"""Order statistics of a synchronous round: the slowest of n exponential tasks.

A round with n clients whose times are independent and exponential with mean m takes m * H_n on
average, H_n = 1 + 1/2 + ... + 1/n (Renyi 1953), with variance m^2 * (1 + 1/4 + ... + 1/n^2). Tasks
that would compute for ever and crash at a constant rate have exponential times, through the
code that every scenario runs.
"""

import math

import numpy as np
import pytest

from fleetsim.contracts import ModelCost, Outcome
from fleetsim.engine.servers import stop

Z = 4.0
MEAN_S = 3600.0 / 10.0


@pytest.mark.slow
@pytest.mark.parametrize(("num_clients", "num_rounds"), [(5, 800), (20, 400)])
def test_the_mean_round_time_is_the_mean_task_time_times_the_harmonic_number(
    tiny, num_clients, num_rounds, monkeypatch
):
    # A run to which nothing is delivered would end before.
    monkeypatch.setattr(stop, "FEWEST_TASKS", num_clients * num_rounds + 1)
    tiny.size = num_clients
    tiny.server = {"cohort": num_clients}
    tiny.stop = {"rounds": num_rounds, "time_s": 1e9}
    tiny.crash_per_hour = 10.0
    tiny.channel = {"kind": "constant", "down_bit_per_s": 1e15, "up_bit_per_s": 1e15}
    tiny.cost = ModelCost({"conv": 1e18}, num_parameters=1, payload_byte=1)
    tiny.run()

    times_s = np.array([row.finished_at_s - row.started_at_s for row in tiny.recorder.rounds])
    ranks = np.arange(1, num_clients + 1)
    expected_s = MEAN_S * float((1 / ranks).sum())
    variance = MEAN_S**2 * float((1 / ranks**2).sum())
    half_width_s = Z * math.sqrt(variance / times_s.size)

    assert {row.outcome for row in tiny.recorder.tasks} == {Outcome.CRASHED}
    assert abs(float(times_s.mean()) - expected_s) < half_width_s
    assert half_width_s < 0.08 * expected_s
