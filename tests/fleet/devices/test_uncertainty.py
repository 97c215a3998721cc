"""Errors of device and radio figures: which have one, by what address, and within which range."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import bundled, rng
from fleetsim.fleet.devices import figures, market
from fleetsim.fleet.devices.figures import (
    ExactFigure,
    Figure,
    PowerFigure,
    RatioFigure,
    ShareFigure,
)
from fleetsim.fleet.devices.hardware_files import HardwareFiles, HardwareKind
from fleetsim.fleet.devices.profile import load_radio
from fleetsim.fleet.devices.uncertainty import DrawnFigure, FigureErrors, off_by, uncertain_figures
from fleetsim.fleet.population import Fleet
from fleetsim.schema import strict_yaml
from tests.fleet.made_fleets import fleet_of

ERRORS = FigureErrors(7, inferred=0.3, measured=0.05)
QUANTITIES = [
    quantity
    for quantity in vars(figures).values()
    if isinstance(quantity, type)
    and issubclass(quantity, Figure)
    and not issubclass(quantity, ExactFigure)
    and quantity is not Figure
]


def doubted(devices: dict[str, float], *, seed: int = 7, **settings: Any) -> Fleet:
    """A fleet of 40 clients whose figures have errors."""
    given = {"uncertainty": {"inferred": 0.3, "measured": 0.05}, **settings}
    return fleet_of(devices, size=40, seed=seed, **given)


def drawn_of(fleet: Fleet, name: str) -> dict[str, DrawnFigure]:
    return {drawn.figure: drawn for drawn in fleet.device_figures if drawn.name == name}


def keys(kind: Any, name: str) -> list[str]:
    return [key for key, _ in uncertain_figures(HardwareFiles().file(kind, name))]


def test_figures_without_an_error_are_zeros_the_peak_standards_and_contracts():
    """Such as dispatch_s of a phone, volts, memory, modulation and CPU credits."""
    without = {"compute.dispatch_s", "compute.peak_gflop_per_s", "battery.nominal_v", "ram_gib"}
    assert not without & {*keys("devices", "pixel-6")}
    assert "compute.dispatch_s" in keys("devices", "t2.small")
    assert not [key for key in keys("devices", "t2.small") if key.startswith("credits")]
    assert not {"max_bit_per_s_per_hz", "amplifier.max_dbm"} & {*keys("radios", "3g")}
    assert keys("radios", "wired") == ["rtt_s"]


def test_of_heat_the_model_has_errors_and_the_settings_of_the_firmware_have_none(tmp_path):
    both = {"source": "made up", "inferred": True}
    thermal = {
        "threshold_c": {"values": [30.0, 45.0], **both},
        "clock_fraction": {"values": [0.8, 0.5], **both},
        "resistance_k_per_w": {"value": 5.0, **both},
        "time_constant_s": {"value": 90.0, **both},
    }
    path = tmp_path / "hot.yaml"
    path.write_text(strict_yaml.dump({"extends": "pixel-6", "title": "hot", "thermal": thermal}))

    assert [key for key in keys("devices", str(path)) if key.startswith("thermal")] == [
        "thermal.resistance_k_per_w",
        "thermal.time_constant_s",
    ]


@pytest.mark.parametrize("seed", range(5))
def test_all_bundled_files_are_valid_with_the_widest_errors(seed):
    files = HardwareFiles().with_errors(FigureErrors(seed, inferred=1.0, measured=1.0))
    kinds: tuple[HardwareKind, ...] = ("devices", "radios")
    every = [(kind, name) for kind in kinds for name in bundled.names(kind)]

    assert [name for kind, name in every if not files.drawn(kind, name)] == [
        "reproduction/jetson-nano-fedgcs"
    ]


def test_the_address_is_the_seed_the_file_and_the_key_path():
    z = rng.stream(7, "device figure/pixel-6/compute.phi.gemm").standard_normal()
    tail = rng.stream(7, "radio figure/lte/tail_w").standard_normal()
    fleet = doubted({"pixel-6": 1.0})

    assert fleet.profiles[0].compute.phi["gemm"] == 1.0 * math.exp(0.3 * z)
    assert drawn_of(fleet, "lte")["tail_w"].factor == math.exp(0.3 * tail)


def test_neither_order_nor_other_devices_change_an_error():
    alone = doubted({"pixel-6": 1.0})
    among = doubted({"t2.small": 0.5, "pixel-6": 0.25, "market": 0.25})

    assert drawn_of(alone, "pixel-6") == drawn_of(among, "pixel-6")
    assert among.profiles[1] == alone.profiles[0]
    assert drawn_of(alone, "lte") == drawn_of(among, "lte")


def test_a_figure_that_states_its_spread_has_that_one_and_not_its_marks():
    """Share .27 with the odds .27 / .73: at z they are exp(1.0 z) times as much."""
    z = float(rng.stream(7, "device figure/pixel-6/compute.clock_share").standard_normal())
    drawn = drawn_of(doubted({"pixel-6": 1.0}), "pixel-6")["compute.clock_share"]
    odds = 0.27 / 0.73 * math.exp(z)

    assert drawn.used == pytest.approx(odds / (1.0 + odds))
    assert "compute.clock_share" not in drawn_of(
        doubted({"pixel-6": 1.0}, uncertainty={"inferred": 0.0, "measured": 0.05}), "pixel-6"
    )


def test_a_variant_has_the_errors_of_the_figures_that_it_takes_over():
    """The same board in another power mode has the same Wi-Fi, and other watts of training."""
    both = doubted({"jetson-tx2": 0.5, "jetson-tx2-max-q": 0.5})
    base, variant = drawn_of(both, "jetson-tx2"), drawn_of(both, "jetson-tx2-max-q")

    assert variant["wifi.transmit_w"].factor == base["wifi.transmit_w"].factor
    assert variant["power.train_above_idle_w"].factor != base["power.train_above_idle_w"].factor


def test_a_device_behind_a_link_has_the_errors_of_its_own_name(tmp_path):
    target = tmp_path / "a.yaml"
    target.write_text("extends: pixel-6\ntitle: own\n", encoding="utf-8")
    link = tmp_path / "b.yaml"
    link.symlink_to(target)
    files = HardwareFiles().with_errors(ERRORS)
    names = [files.drawn("devices", str(path))[0].name for path in (target, link)]

    assert names == ["a", "b"]


def test_clients_of_the_market_are_as_far_off_as_the_phone_that_represents_them():
    plain = doubted({"market": 1.0}, uncertainty={})
    drawn = doubted({"market": 1.0})
    rates = market.conv_flop_per_s(market.draw_latencies_ms(7, 40))

    assert np.array_equal(plain.device, drawn.device)
    assert np.array_equal(plain.unit_speed, drawn.unit_speed)
    for client in range(40):
        phone = drawn.profile(client).name.removeprefix("market:")
        factor = drawn_of(drawn, phone)["compute.conv_gflop_per_s"].factor
        assert plain.conv_flop_per_s(client) == pytest.approx(rates[client], rel=1e-12)
        assert drawn.conv_flop_per_s(client) == pytest.approx(rates[client] * factor, rel=1e-12)


def test_only_radios_in_use_and_devices_that_clients_have_are_on_record():
    cable = doubted({"t2.small": 1.0})
    wifi = doubted({"pixel-6": 0.999999, "pixel-7": 0.000001}, network={"kind": "wifi"})
    mixed = doubted({"pixel-6": 1.0}, network={"kind": "mixed", "cellular_fraction": 0.5})

    for fleet, expected in (
        (cable, ["t2.small", "wired"]),
        (wifi, ["pixel-6", "wifi"]),
        (mixed, ["pixel-6", "wifi", "lte"]),
    ):
        assert list(dict.fromkeys(drawn.name for drawn in fleet.device_figures)) == expected


@pytest.mark.parametrize(
    ("quantity", "sourced", "factor", "used"),
    [
        (PowerFigure, 4.0, 1.25, 5.0),
        # Powers are from 1 microwatt to 10 kW.
        (PowerFigure, 9000.0, 2.0, 1e4),
        (PowerFigure, 1e-6, 0.5, 1e-6),
        (RatioFigure, 0.5, 4.0, 2.0),
        # 0.2 is 1 to 4; three times these odds are 3 to 4.
        (ShareFigure, 0.2, 3.0, 3 / 7),
        (ShareFigure, 1.0, 0.5, 1.0),
    ],
)
def test_a_figure_is_multiplied_and_clipped_and_odds_of_a_share(quantity, sourced, factor, used):
    assert off_by(quantity(value=sourced, source="test"), factor) == pytest.approx(used, rel=1e-12)


@given(quantity=st.sampled_from(QUANTITIES), share=st.floats(0.0, 1.0), z=st.floats(-9.0, 9.0))
def test_the_schema_takes_every_value_with_an_error(quantity, share, z):
    """Values of the whole range of each quantity, errors up to nine standard deviations of 1."""
    limits = {type(limit).__name__: limit for limit in quantity.model_fields["value"].metadata}
    low, high = limits["Ge"].ge, limits["Le"].le
    value = low + share * (high - low) if low <= 0.0 else low * (high / low) ** share
    figure = quantity(value=min(max(value, low), high), source="test")
    used = off_by(figure, math.exp(z))

    assert quantity(value=used, source="test").value == used


@pytest.mark.parametrize(
    ("inferred", "measured"), [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0)], ids=["both", "base", "tail"]
)
def test_a_radio_never_draws_more_asleep_than_awake(tmp_path, inferred, measured):
    """Base powers 5 % above the tail; a spread of 1 reverses them in half of the seeds."""
    text = (bundled.folder("radios") / "lte.yaml").read_text(encoding="utf-8")
    assert text.count("value: 0.369") == text.count("value: 0.543") == 1
    path = tmp_path / "near.yaml"
    near = text.replace("value: 0.369", "value: 0.128").replace("value: 0.543", "value: 0.129")
    path.write_text(near, encoding="utf-8")
    num_cut = 0
    for seed in range(40):
        errors = FigureErrors(seed, inferred=inferred, measured=measured)
        files = HardwareFiles().with_errors(errors)
        radio = load_radio(str(path), files=files)
        drawn = {one.figure: one for one in files.drawn("radios", str(path))}
        factors = [one for key, one in drawn.items() if key != "amplifier.efficiency"]
        num_cut += any(one.used != one.sourced * one.factor for one in factors)

        assert radio.tail_w <= min(radio.receive_w, radio.transmit_w)
        for key, radio_w, sourced_w in (
            ("tail_w", radio.tail_w, 0.122),
            ("receive.base_w", radio.receive_w, 0.128),
            ("transmit.base_w", radio.transmit_w, 0.129),
        ):
            assert radio_w == (drawn[key].used if key in drawn else sourced_w)
    assert 5 < num_cut < 40
