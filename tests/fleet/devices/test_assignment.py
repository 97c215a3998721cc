import csv
import gzip
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from fleetsim.contracts import ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.devices import market
from fleetsim.fleet.devices.assignment import Hardware, assign_hardware
from fleetsim.fleet.devices.profile import load_device
from fleetsim.fleet.population import Fleet
from tests.fleet.made_fleets import fleet_of

TRAIN = Work(WorkKind.TRAIN, epochs=1)
NOTHING = np.zeros((50, 0))
"""Condition of clients without throttling."""
MODEL = ModelCost({"conv": 1e9}, num_parameters=10**6, payload_byte=4 * 10**6)


def assigned(shares, size=1000, sigma=0.0, seed=1) -> Hardware:
    return assign_hardware(shares, unit_spread_sigma=sigma, size=size, seed=seed)


def always_on(devices: dict[str, float], **settings: Any) -> Fleet:
    usage, thermal = {"trace": None}, {"kind": "none"}
    return fleet_of(devices, size=50, usage=usage, thermal=thermal, **settings)


@pytest.mark.parametrize("sigma", [0.1, 0.2])
def test_the_spread_is_log_normal_and_keeps_the_mean_time(sigma):
    size = 400_000
    speed = assigned({"pixel-6": 1.0}, size=size, sigma=sigma).unit_speed

    # Five standard errors; the variance of a log-normal time of mean 1 is exp(sigma^2) - 1.
    five = 5 / math.sqrt(size)
    assert (1 / speed).mean() == pytest.approx(1.0, abs=five * math.sqrt(math.expm1(sigma**2)))
    assert np.log(speed).mean() == pytest.approx(sigma**2 / 2, abs=five * sigma)
    assert np.log(speed).std() == pytest.approx(sigma, abs=five * sigma / math.sqrt(2))


def test_a_units_speed_depends_on_its_number_alone_and_a_wider_spread_is_the_same_draw_wider():
    few, many = (assigned({"pixel-6": 1.0}, size=n, sigma=0.2).unit_speed for n in (10, 1000))
    others = assigned({"t2.small": 0.5, "pixel-4": 0.5}, sigma=0.2).unit_speed
    narrow = assigned({"pixel-6": 1.0}, sigma=0.1).unit_speed

    assert np.array_equal(few, many[:10])
    assert np.array_equal(others, many)
    z = (np.log(narrow) - 0.005) / 0.1
    assert np.log(many) == pytest.approx(0.2 * z + 0.02)


@pytest.mark.parametrize(
    "spread", [{"unit_spread_sigma": 0.2}, {"heterogeneity": {"speed": 1.0}}], ids=str
)
def test_a_slow_unit_takes_longer_at_the_same_watts_and_so_costs_more_joules(spread):
    slow, alike = always_on({"pixel-6": 1.0}, **spread), always_on({"pixel-6": 1.0})
    clients, start_s = np.arange(50), np.zeros(50)

    done = slow.computations(clients, start_s, NOTHING, MODEL, TRAIN, Batching(10))
    model = alike.computations(clients, start_s, NOTHING, MODEL, TRAIN, Batching(10))

    assert done.end_s * slow.unit_speed == pytest.approx(model.end_s)
    assert done.end_s.min() < 0.9 * model.end_s[0] < 1.1 * model.end_s[0] < done.end_s.max()
    assert done.energy_until(done.end_s) == pytest.approx(4.43 * done.end_s)


def test_a_client_of_the_market_computes_at_its_own_rate_on_the_nearest_phone():
    hardware = assigned({"market": 1.0})
    rates = market.conv_flop_per_s(market.draw_latencies_ms(1, 1000))
    of_profiles = np.array([profile.compute.conv_flop_per_s for profile in hardware.profiles])

    assert of_profiles[hardware.device] * hardware.unit_speed == pytest.approx(rates)
    assert (np.abs(np.log(hardware.unit_speed)) < math.log(3.0)).all()


def test_a_share_of_the_market_stands_beside_other_devices_in_exact_counts():
    hardware = assigned({"t2.small": 0.25, "market": 0.5, "pixel-6": 0.25}, size=400)
    names = [hardware.profiles[index].name for index in hardware.device.tolist()]
    on_market = np.array([name.startswith("market:") for name in names])

    assert names.count("t2.small") == names.count("pixel-6") == 100
    assert on_market.sum() == 200
    assert (hardware.unit_speed[~on_market] == 1.0).all()


def test_latencies_go_through_the_published_quantiles_and_between_them_their_logarithm_is_linear():
    assert market.latency_ms(np.array(market.SHARES)) == pytest.approx(market.LATENCIES_MS, 1e-12)
    # half way from the median to the upper quartile: the geometric mean of 170 and 305 ms
    assert market.latency_ms(np.array([0.625])) == pytest.approx(math.sqrt(170 * 305))


def test_the_market_rate_is_the_one_that_phones_of_that_latency_have() -> None:
    # 97 ms is the Pixel 6's ResNet latency; its profile rounds the rate to 0.1 GFLOP/s
    rate = float(market.conv_flop_per_s(np.array([97.0]))[0])

    assert rate == pytest.approx(load_device("pixel-6").compute.conv_flop_per_s, abs=0.05e9)


def test_a_clients_draw_does_not_depend_on_the_size_of_the_fleet():
    few, many = market.draw_latencies_ms(3, 100), market.draw_latencies_ms(3, 10_000)

    assert np.array_equal(few, many[:100])
    assert not np.array_equal(few, market.draw_latencies_ms(4, 100))


def test_the_nearest_rate_equals_a_search_over_all():
    among = [load_device(name).compute.conv_flop_per_s for name in market.PHONES]
    rates = market.conv_flop_per_s(market.draw_latencies_ms(1, 2000))

    gaps = np.abs(np.log(rates[:, np.newaxis] / np.array(among)))
    nearest = market.nearest(rates, among)

    assert gaps[np.arange(rates.size), nearest] == pytest.approx(gaps.min(axis=1))
    assert set(nearest.tolist()) == set(range(len(among)))


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
