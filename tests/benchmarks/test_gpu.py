"""Trial of the GPU benchmark on the CPU: all ways of a round compute the same."""

import sys

import pytest
import torch

from benchmarks import gpu


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chosen"), [("w1", "stacked"), ("w7", "serial")])
def test_every_way_trains_the_round_of_one_client_at_a_time(name, chosen):
    bench = gpu.Bench(name, "cpu", clients=2, samples=10)
    ways = bench.ways()
    found = {label: way() for label, (_, way) in ways.items()}
    expected = found.pop("one client at a time")

    assert bench.chosen == chosen
    assert len(found) >= 4
    for label, results in found.items():
        tolerance = 0.2 if label.endswith("mixed") else 1e-4
        assert gpu.distance(results, expected, bench.base) < tolerance, label


def test_without_a_cuda_device_it_says_so_and_exits_with_2(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu", "--works", "w1", "--clients", "1", "--samples", "1"])
    with pytest.raises(SystemExit) as fault:
        gpu.main()

    assert fault.value.code == 2
    assert "torch sees no cuda device" in capsys.readouterr().err
