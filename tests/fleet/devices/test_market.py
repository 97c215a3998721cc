import csv
import gzip
import math

import numpy as np
import pytest
from scipy.stats import kstest

from fleetsim.fleet.devices import market
from fleetsim.fleet.devices.profile import load_device


def test_the_quantile_function_goes_through_the_published_quantiles() -> None:
    found = market.latency_ms(np.array(market.SHARES))

    assert found.tolist() == pytest.approx(market.LATENCIES_MS, rel=1e-12)


def test_between_two_quantiles_the_logarithm_is_linear() -> None:
    # half way from the median to the upper quartile: the geometric mean of 170 and 305 ms
    assert market.latency_ms(np.array([0.625])).tolist() == pytest.approx([math.sqrt(170 * 305)])


def test_the_market_rate_is_the_one_that_phones_of_that_latency_have() -> None:
    # 97 ms is the Pixel 6's ResNet latency; its profile rounds the rate to 0.1 GFLOP/s
    rate = float(market.conv_flop_per_s(np.array([97.0]))[0])

    assert rate == pytest.approx(load_device("pixel-6").compute.conv_flop_per_s, abs=0.05e9)


def test_a_clients_draw_does_not_depend_on_the_size_of_the_fleet() -> None:
    few, many = market.draw_latencies_ms(3, 100), market.draw_latencies_ms(3, 10_000)

    assert np.array_equal(few, many[:100])
    assert not np.array_equal(few, market.draw_latencies_ms(4, 100))


def test_the_nearest_rate_equals_a_search_over_all() -> None:
    among = [load_device(name).compute.conv_flop_per_s for name in market.PHONES]
    rates = market.conv_flop_per_s(market.draw_latencies_ms(1, 2000))

    gaps = np.abs(np.log(rates[:, np.newaxis] / np.array(among)))
    found = market.nearest(rates, among)

    assert gaps[np.arange(rates.size), found] == pytest.approx(gaps.min(axis=1))
    assert set(found.tolist()) == set(range(len(among)))


def test_the_market_is_distributed_as_the_table_of_phones(real_trace):
    path = real_trace("device-latency") / "training_latency.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = np.array([float(row["resnet_ms"]) for row in csv.DictReader(file)])
    rows = rows[(rows > 0.0) & (rows <= 2000.0)]

    # Of 100 samples of 973 from the market, 99 would lie within 0.0522 of it (Kolmogorov); the
    # table itself, whose quantiles the market goes through, must do better.
    logs = np.log(market.LATENCIES_MS)
    distance = kstest(rows, lambda ms: np.interp(np.log(ms), logs, market.SHARES)).statistic
    drawn = market.draw_latencies_ms(1, 200_000)

    assert rows.size == 973
    quantiles = np.quantile(rows, market.SHARES)
    assert quantiles.tolist() == pytest.approx(market.LATENCIES_MS, abs=0.5)
    assert distance < 0.04
    assert np.median(drawn) == pytest.approx(np.median(rows), rel=0.02)
    assert np.log(drawn).std() == pytest.approx(np.log(rows).std(), rel=0.05)
