"""Steps of modulation and coding, by the table as 3GPP TS 38.214 prints it."""

import math

import numpy as np
import pytest

import fleetsim
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.profile import load_radio
from fleetsim.fleet.network.channel import Channel, build_channel
from fleetsim.fleet.network.channels import FadingSettings, NormalisedSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.rate import Modem, Modulations, nr_64qam
from fleetsim.fleet.network.wireless.wifi import IndoorWifiSettings

DOWN, UP = Direction.DOWN, Direction.UP

# Table 5.1.3.1-1 without MCS 10 (1.3281) and 17 (2.5664), column "spectral efficiency".
PRINTED = [
    0.2344, 0.3066, 0.3770, 0.4902, 0.6016, 0.7402, 0.8770, 1.0273, 1.1758, 1.3262,
    1.4766, 1.6953, 1.9141, 2.1602, 2.4063, 2.5703,
    2.7305, 3.0293, 3.3223, 3.6094, 3.9023, 4.2129, 4.5234, 4.8164, 5.1152, 5.3320, 5.5547,
]  # fmt: skip
STEPS = nr_64qam(0.0, math.inf, 1.0)


def plain_up(steps: Modulations, snr: float, part: float, least: float) -> float:
    """The law of the uplink as the module states it, by trying every step."""
    if part < least:
        return part / least * plain_up(steps, snr, least, least)
    rates = [0.0]
    for t, e in zip(steps.least_snr, steps.bit_per_s_per_hz, strict=True):
        if snr / t >= least * (1.0 - 1e-12):
            rates.append(float(e * min(part, snr / t)))
    return max(rates)


def test_efficiencies_are_those_that_the_standard_prints():
    assert STEPS.bit_per_s_per_hz == pytest.approx(PRINTED, abs=5.1e-5)
    assert STEPS.bit_per_s_per_hz[-1] == 6 * 948 / 1024


def test_thresholds_of_a_channel_quality_are_the_published_ones():
    """CQI 2, 7, 10 and 15, and MCS 3, half way between CQI 3 and 4 by its efficiency."""
    by_rate = dict(zip(PRINTED, 10.0 * np.log10(STEPS.least_snr), strict=True))

    assert [by_rate[e] for e in (0.2344, 1.4766, 2.7305, 5.5547)] == pytest.approx(
        [-4.7, 5.9, 11.7, 22.7]
    )
    assert by_rate[0.4902] == pytest.approx(
        -2.3 + 2.5 * (0.4902 - 0.377) / (0.6016 - 0.377), abs=1e-3
    )


def test_a_step_begins_at_its_threshold():
    at = STEPS.least_snr
    below = STEPS.down(at * (1.0 - 1e-9))

    assert STEPS.down(at).tolist() == STEPS.bit_per_s_per_hz.tolist()
    assert below.tolist() == [0.0, *STEPS.bit_per_s_per_hz[:-1]]


def test_no_rate_is_above_shannons_and_where_modems_work_it_is_about_two_thirds():
    snr_db = np.linspace(-30.0, 60.0, 5000)
    snr = 10.0 ** (snr_db / 10.0)
    shannon = np.log2(1.0 + snr)
    down, up = STEPS.down(snr), STEPS.up(snr, 1.0, 0.01)
    at_steps = STEPS.bit_per_s_per_hz / np.log2(1.0 + STEPS.least_snr)
    works = (snr_db >= 0.2) & (snr_db <= 22.7)

    for rate in (down, up):
        assert (rate < shannon).all()
        assert (np.diff(rate) >= 0.0).all()
    assert (up >= down).all()
    assert (at_steps[4:] > 0.58).all()
    assert (at_steps < 0.74).all()
    assert 0.58 < float((down / shannon)[works].mean()) < float((up / shannon)[works].mean()) < 0.73


@pytest.mark.parametrize("gap", [1.0, 2.0])
def test_overhead_cap_and_gap_are_applied_to_every_step(gap):
    steps = nr_64qam(0.14, 2.0, gap)

    assert steps.bit_per_s_per_hz == pytest.approx([min(0.86 * e, 2.0) for e in PRINTED], abs=5e-5)
    assert steps.least_snr == pytest.approx(gap * STEPS.least_snr)


@pytest.mark.parametrize("part", [1.0, 0.3, 0.036, 0.01])
def test_a_phone_uses_as_much_of_its_part_as_serves_it_best(part):
    for steps in (STEPS, nr_64qam(0.08, 3.0, 1.5)):
        snr = 10.0 ** (np.linspace(-30.0, 40.0, 701) / 10.0)
        rate = steps.up(snr, part, 0.036)

        assert rate == pytest.approx([plain_up(steps, float(s), part, 0.036) for s in snr])


def channel(settings: NormalisedSettings | FadingSettings, radio: str | None = None) -> Channel:
    return build_channel(
        settings,
        seed=1,
        size=1,
        wired_bit_per_s=np.full(1, np.nan),
        radio=None if radio is None else load_radio(radio),
    )


def rates(snr_db: float, **keys: object) -> list[float]:
    settings = NormalisedSettings.model_validate(
        {"mean_snr_db": snr_db, "fading": "none", "bandwidth_hz": 1e6, **keys}
    )
    return [channel(settings).rate_at(0, way, 0.0) for way in (DOWN, UP)]


def test_a_link_loses_what_pilots_and_control_take():
    assert rates(30.0, rate="nr-64qam") == pytest.approx([0.86 * 5.5546875e6, 0.92 * 5.5546875e6])
    overheads = {"overhead_fraction": 0.18, "up_overhead_fraction": 0.1}
    assert rates(5.9, rate="nr-64qam", **overheads) == pytest.approx(
        [0.82 * 1.4765625e6, 0.9 * 1.4765625e6]
    )
    assert rates(5.9) == pytest.approx([1e6 * math.log2(1.0 + 10.0**0.59)] * 2)


def test_a_link_below_the_lowest_step_is_in_outage_and_a_phone_uses_a_narrow_part():
    """At -8 dB in 1 MHz a phone has -4.7 dB in a part of 10^-0.33: MCS 0 there."""
    down, up = rates(-8.0, rate="nr-64qam")

    assert down == 0.0
    assert up == pytest.approx(0.92 * 0.234375e6 * 10.0**-0.33)
    assert rates(-12.2, rate="nr-64qam") == [0.0, 0.0]  # -4.75 dB in a resource block of 180 kHz


@pytest.mark.parametrize(
    ("keys", "has_steps"),
    [
        ({}, True),
        ({"rate": "shannon"}, False),
        ({"max_bit_per_s_per_hz": None}, False),
        ({"max_bit_per_s_per_hz": 5.0}, False),
        ({"max_bit_per_s_per_hz": None, "rate": "nr-64qam"}, True),
    ],
)
def test_links_with_a_modem_have_steps_unless_the_scenario_says_shannon(keys, has_steps):
    near = {"cell_radius_m": 10.0, "bandwidth_hz": 1e6, "fading": "none"}
    rate = channel(FadingSettings.model_validate({**near, **keys}), "lte").rate_at(0, DOWN, 0.0)

    assert (rate == pytest.approx(0.86 * 5.5546875e6)) is has_steps


def test_a_threshold_above_the_fastest_step_is_refused():
    above = "fleet.channel.outage_bit_per_s_per_hz=5"

    with pytest.raises(ScenarioError, match=r"is above 4\.777, the fastest rate of radio 'lte'"):
        fleetsim.load("quickstart", above)
    fleetsim.load("quickstart", [above, "fleet.channel.rate=shannon"])


SNR = np.array([0.0, 1.0, 3.0, 15.0, 1023.0])  # log2(1 + snr) is 0, 1, 2, 4, 10


BANDS = (2e6, 1e6)
FAST = Modem((2e6, 2e6), cap_bit_per_s_per_hz=3.0, most_bit_per_s=(5e6, math.inf))


@pytest.mark.parametrize(
    ("modem", "way", "expected"),
    [
        # Shannon's in the band of the direction
        (Modem(BANDS), DOWN, [0.0, 2e6, 4e6, 8e6, 20e6]),
        (Modem(BANDS), UP, [0.0, 1e6, 2e6, 4e6, 10e6]),
        # A gap divides the signal.
        (Modem(BANDS, gap=3.0), UP, [1e6 * math.log2(1.0 + snr / 3.0) for snr in SNR]),
        (Modem(BANDS, cap_bit_per_s_per_hz=3.0), DOWN, [0.0, 2e6, 4e6, 6e6, 6e6]),
        # A fastest rate of its own in each direction, and a slowest modulation
        (FAST, DOWN, [0.0, 2e6, 4e6, 5e6, 5e6]),
        (FAST, UP, [0.0, 2e6, 4e6, 6e6, 6e6]),
        (Modem(BANDS, outage_bit_per_s_per_hz=1.5), UP, [0.0, 0.0, 2e6, 4e6, 10e6]),
    ],
)
def test_rates_are_shannons_less_gap_caps_and_outage(modem, way, expected):
    assert modem.rates_bit_per_s(way, SNR) == pytest.approx(expected)


def test_a_cap_on_the_threshold_gets_through():
    modem = Modem((0.7e6, 0.7e6), cap_bit_per_s_per_hz=2.3, outage_bit_per_s_per_hz=2.3)

    assert modem.rates_bit_per_s(UP, SNR).tolist() == [0.0, 0.0, 0.0, 2.3 * 0.7e6, 2.3 * 0.7e6]


SEED = 3
EXACT = {"shadowing_sd_db": 0.0, "airtime_share": (0.5, 0.5)}


def at_distance(distance_m: float, **settings: object) -> IndoorWifiSettings:
    place = {"radius_m": distance_m, "min_distance_m": distance_m}
    return IndoorWifiSettings.model_validate({**place, **EXACT, **settings})


def test_far_from_the_access_point_the_rate_is_the_budget_of_the_link():
    settings = at_distance(80.0, path_loss_exponent_db=35.0, access_point_tx_power_dbm=20.0)
    down, up = settings.rates_bit_per_s(seed=SEED, size=3)

    loss_db = 46.3 + 35.0 * math.log10(80.0)
    noise_dbm = -174.0 + 7.0 + 10.0 * math.log10(20e6)
    for rates, tx_dbm in ((down, 20.0), (up, 16.0)):
        snr = 10.0 ** ((tx_dbm - loss_db - noise_dbm) / 10.0)
        by_hand = 0.5 * 20e6 * math.log2(1.0 + snr / 10.0**0.3)
        assert rates == pytest.approx([by_hand] * 3, rel=1e-9)
        assert by_hand < 20e6


def test_near_it_the_modem_and_the_line_are_the_limits():
    down, up = at_distance(2.0).rates_bit_per_s(seed=SEED, size=2)

    assert down.tolist() == pytest.approx([0.5 * 72.2e6] * 2)
    assert up.tolist() == [20e6, 20e6]


def test_shares_of_the_airtime_are_uniform_and_shadows_are_the_same_both_ways():
    settings = IndoorWifiSettings(radius_m=2.0, line_down_bit_per_s=None, line_up_bit_per_s=None)
    down, up = settings.rates_bit_per_s(seed=SEED, size=20_000)

    share = down / 72.2e6
    assert share.min() >= 0.4
    assert share.max() <= 0.8
    # The mean of 20,000 uniform draws on [0.4, 0.8] has a standard deviation of 0.0008.
    assert share.mean() == pytest.approx(0.6, abs=0.0035)
    assert (down == up).all()
    assert down.max() <= settings.top_bit_per_s


def test_a_client_has_the_same_rates_in_a_larger_fleet():
    settings = IndoorWifiSettings(radius_m=100.0)
    few, many = (settings.rates_bit_per_s(seed=SEED, size=size) for size in (5, 500))

    assert (few == many[:, :5]).all()
    assert len(set(few[0].tolist())) == 5
