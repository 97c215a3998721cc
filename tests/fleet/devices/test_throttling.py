"""Skin temperature and CPU credits: by hand, and against fine steps, a governor and a bucket."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.credits import CreditProfile, Credits, credits_of
from fleetsim.fleet.devices.profile import load_device
from fleetsim.fleet.devices.thermal import (
    PIXEL_3,
    Heater,
    SkinProfile,
    Skins,
    SkinSettings,
    skins_of,
)

CLEAR_C = (38.0, 40.0, 42.0, 43.0, 45.0)
"""Temperatures at which a Pixel 3 lifts its caps."""
ONE = np.ones(1)


def skins(*heaters: Heater, ambient_c: float = 25.0) -> Skins:
    made = skins_of(SkinSettings(kind="skin", ambient_c=ambient_c), list(heaters))
    assert made is not None
    return made


def phone(train_w: float = 5.0, idle_w: float = 0.0, ambient_c: float = 25.0) -> Skins:
    return skins(Heater(PIXEL_3, idle_w, train_w), ambient_c=ambient_c)


def warmed(rules: Skins, skin_c: float, use: float, seconds: float, clock: float = 1.0) -> float:
    one = [np.array([value]) for value in (skin_c, use, seconds)]
    return float(rules.after(one[0], one[1], clock, one[2])[0])


def test_a_pixel_3_is_capped_as_its_governor_says() -> None:
    # big cores at 1.9968, 1.6896, 1.3632, 1.056, 0.8256 of 2.6496 GHz
    assert PIXEL_3.clock_fraction == pytest.approx((0.754, 0.638, 0.515, 0.399, 0.312), abs=7e-4)
    rules = phone()
    speeds = [
        float(rules.step(np.array([t_c]), np.zeros(1), 1.0).speed[0])
        for t_c in (38.9, 39.1, 41.1, 43.1, 45.1, 47.1)
    ]
    assert speeds == pytest.approx([1.0, *PIXEL_3.clock_fraction])


def test_a_phone_at_full_use_settles_where_its_caps_balance_the_heat() -> None:
    # Pixel 6: 0.149 W idle, 4.43 W training. At 41 C the air takes (41 - 25) / 6.8 = 2.353 W, of
    # which 2.204 W are the processor's: between 4.43 x 0.638^2 = 1.801 and 4.43 x 0.754^2 = 2.516.
    device = load_device("pixel-6").power
    rules = skins(Heater(PIXEL_3, device.idle_awake_w, device.train_above_idle_w))
    settled_c = rules.after(rules.resting_c, ONE, 1.0, np.array([600.0]))
    step = rules.step(settled_c, ONE, 1.0)

    assert settled_c.tolist() == [41.0]
    low, high = 1.6896 / 2.6496, 1.9968 / 2.6496
    share = ((41 - 25) / 6.8 - 0.149 - 4.43 * low**2) / (4.43 * (high**2 - low**2))
    assert step.speed[0] == pytest.approx(share * high + (1 - share) * low)
    assert step.power[0] * 4.43 == pytest.approx((41 - 25) / 6.8 - 0.149)
    assert step.hold_s.tolist() == [np.inf]


def test_a_clock_below_the_caps_feels_none_of_them():
    rules = phone(5.0)

    assert warmed(rules, 25.0, 1.0, 1e5, clock=0.5) == pytest.approx(25 + 6.8 * 5.0 / 4)
    assert rules.step(np.array([44.0]), ONE, 0.5).speed.tolist() == [0.5]
    assert rules.step(np.array([46.0]), ONE, 0.5).speed[0] == pytest.approx(1.056 / 2.6496)


def test_a_cap_stretches_the_share_that_is_bound_by_the_clock_and_heats_as_any_other():
    """A share of .25 at .5 of the clock: 1 / (.25 / .5 + .75) = .8 of the speed."""
    cap = SkinProfile((30.0,), (0.5,), resistance_k_per_w=10.0, time_constant_s=100.0)
    rules = skins(Heater(cap, 0.0, 1.0, 0.25), Heater(cap, 0.0, 1.0))
    hot, sliding = (rules.step(np.full(2, t_c), np.ones(2), 1.0) for t_c in (31.0, 30.0))

    assert hot.speed == pytest.approx([0.8, 0.5])
    # at 30 C a third of the time at full clock, as 0.5 W on average need
    assert sliding.speed == pytest.approx([1 / 3 + 2 / 3 * 0.8, 1 / 3 + 2 / 3 * 0.5])
    assert hot.power.tolist() == [0.25, 0.25]
    assert sliding.power == pytest.approx([0.5, 0.5])


def by_fine_steps(rules, skin_c, use, seconds, num) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Euler: temperature at the end, mean speed and mean power on the way."""
    rows = np.arange(skin_c.size)
    speed, power = np.zeros(skin_c.size), np.zeros(skin_c.size)
    for _ in range(num):
        clock = rules.clock_fraction[rows, (rules.threshold_c <= skin_c[:, None]).sum(axis=1)]
        toward_c = rules.resting_c + rules.rise_k * use * clock**2
        skin_c = skin_c + (toward_c - skin_c) * (seconds / num) / rules.time_constant_s
        speed, power = speed + clock / num, power + clock**2 / num
    return skin_c, speed, power


def means(rules: Skins, skin_c: FloatArray, use: FloatArray, seconds: float) -> list[FloatArray]:
    """The same in closed form."""
    now_s, speed, power = np.zeros(skin_c.size), np.zeros(skin_c.size), np.zeros(skin_c.size)
    for _ in range(rules.max_steps):
        step = rules.step(skin_c, use, 1.0)
        for_s = np.minimum(step.hold_s, seconds - now_s)
        speed, power = speed + step.speed * for_s, power + step.power * for_s
        now_s, skin_c = now_s + for_s, step.next_c
    return [speed / seconds, power / seconds]


def test_closed_forms_agree_with_fine_steps_through_all_thresholds():
    draw = np.random.default_rng(11)
    num_phones, num_steps = 200, 10_000
    heaters = [Heater(PIXEL_3, 0.2, float(w)) for w in draw.uniform(0.5, 12.0, num_phones)]
    rules, begin_c = skins(*heaters, ambient_c=28.0), draw.uniform(20.0, 52.0, num_phones)
    use = draw.uniform(0.0, 1.0, num_phones)
    reached_c = rules.after(begin_c, use, 1.0, np.full(num_phones, 200.0))
    slow_c, speed, power = by_fine_steps(rules, begin_c, use, 200.0, num_steps)

    # an Euler step moves at most (12 W x 6.8 K/W + 30 K) x 20 ms / 70 s = 0.03 K
    assert np.abs(reached_c - slow_c).max() < 0.04
    closed_speed, closed_power = means(rules, begin_c, use, 200.0)
    assert np.abs(closed_speed - speed).max() < 2e-3
    assert np.abs(closed_power - power).max() < 2e-3
    assert (reached_c == rules.threshold_c[:, :1]).any()  # some slide
    assert (reached_c == rules.threshold_c[:, 1:2]).any()


@pytest.mark.parametrize("train_w", [3.5, 4.79, 6.49, 8.0])
def test_a_governor_with_hysteresis_sustains_nearly_the_same_speed(train_w):
    set_c, clocks = PIXEL_3.threshold_c, (1.0, *PIXEL_3.clock_fraction)
    skin_c, level, speed, num, step_s = 40.0, 1, 0.0, 40_000, 0.05
    for _ in range(num):
        while level < len(set_c) and skin_c >= set_c[level]:
            level += 1
        while level > 0 and skin_c <= CLEAR_C[level - 1]:
            level -= 1
        speed += clocks[level] / num
        skin_c += (25 + 6.8 * train_w * clocks[level] ** 2 - skin_c) * step_s / 70.0

    sliding = float(means(phone(train_w), np.array([40.0]), ONE, num * step_s)[0][0])
    assert sliding == pytest.approx(speed, rel=0.03)


watts = st.floats(0.1, 20.0)
shares = st.floats(0.0, 1.0)
temperatures = st.floats(-10.0, 70.0)


@given(watts, temperatures, shares, st.floats(0.0, 2000.0), shares)
def test_two_stretches_are_as_one(train_w, begin_c, use, seconds, cut):
    rules = phone(train_w)
    first_c = warmed(rules, begin_c, use, cut * seconds)
    at_once_c = warmed(rules, begin_c, use, seconds)

    assert warmed(rules, first_c, use, seconds - cut * seconds) == pytest.approx(
        at_once_c, abs=1e-6
    )


@given(watts, temperatures, temperatures, shares)
def test_after_forty_time_constants_nobody_knows_how_warm_it_was(train_w, one_c, other_c, use):
    rules = phone(train_w)
    forgets_s = float(rules.forgets_s[0])

    assert warmed(rules, one_c, use, forgets_s) == pytest.approx(
        warmed(rules, other_c, use, forgets_s), abs=1e-9
    )


SMALL = CreditProfile(num_vcpus=1, per_hour=12, maximum=288, launch=30)


def rules_of(profile: CreditProfile = SMALL) -> Credits:
    rules = credits_of([profile])
    assert rules is not None
    return rules


def after(launch_s: float, earned_s: float, use: float, seconds: float) -> tuple[float, float]:
    """Balance of a t2.small, in seconds of its vCPU."""
    one = [np.array([value]) for value in (launch_s, earned_s, use, seconds)]
    left_s, earned = rules_of().after(*one)
    return float(left_s[0]), float(earned[0])


@pytest.mark.parametrize(
    ("launch_s", "earned_s", "use", "seconds", "left"),
    [
        # A day of idling earns 24 x 12 credits, which is the maximum of 288, a week no more; launch
        # credits come on top.
        (1800.0, 0.0, 0.0, 86_400.0, (1800.0, 288 * 60.0)),
        (1800.0, 0.0, 0.0, 7 * 86_400.0, (1800.0, 288 * 60.0)),
        # 600 s at full use: 600 s of launch credits are gone first, 0.2 x 600 s are earned
        (1800.0, 0.0, 1.0, 600.0, (1200.0, 120.0)),
        # 2000 s: none left after 1800, which earned 360; the last 200 cost 0.8 each
        (1800.0, 0.0, 1.0, 2000.0, (0.0, 360.0 - 160.0)),
        # 12 credits of 60 s in an idle hour
        (0.0, 0.0, 0.0, 3600.0, (0.0, 720.0)),
        # A load at the baseline keeps the balance.
        (0.0, 500.0, 0.2, 1e6, (0.0, 500.0)),
    ],
)
def test_balances_by_hand(launch_s, earned_s, use, seconds, left):
    assert after(launch_s, earned_s, use, seconds) == pytest.approx(left)


def test_an_instance_that_earns_all_it_can_use_never_runs_out():
    rules = rules_of(CreditProfile(num_vcpus=1, per_hour=60, maximum=1440, launch=0))

    assert rules.full_use_s(np.zeros(1), np.zeros(1)).tolist() == [np.inf]


balances = st.tuples(st.floats(0.0, 1800.0), st.floats(0.0, 288 * 60.0))
stretches = st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(1, 4000)), min_size=1, max_size=6)


def second_by_second(launch: float, earned: float, use: float, seconds: int) -> tuple[float, float]:
    for _ in range(seconds):
        from_launch = min(launch, use)
        launch -= from_launch
        earned = min(max(earned + 0.2 - (use - from_launch), 0.0), 288 * 60.0)
    return launch, earned


@pytest.mark.slow
@given(balances, stretches)
def test_balances_stay_within_bounds_and_follow_the_bucket_second_by_second(balance, stretches):
    launch_s, earned_s = balance
    slow: tuple[float, float] = balance
    for use, seconds in stretches:
        launch_s, earned_s = after(launch_s, earned_s, use, float(seconds))
        slow = second_by_second(*slow, use, seconds)

        assert 0.0 <= launch_s <= 1800.0
        assert 0.0 <= earned_s <= 288 * 60.0
    # the slow bucket is at most a second off whenever launch credits end
    assert (launch_s, earned_s) == pytest.approx(slow, abs=2.0)


@given(balances, st.floats(0.0, 1.0))
def test_when_foretold_nothing_is_left_and_before_it_something(balance, share):
    held: list[FloatArray] = [np.array([value]) for value in balance]
    lasts_s = float(rules_of().full_use_s(*held)[0])
    launch_s, earned_s = balance

    assert after(launch_s, earned_s, 1.0, lasts_s) == pytest.approx((0.0, 0.0), abs=1e-6)
    # what is left at full use lasts for the rest of the time
    left = [np.array([value]) for value in after(launch_s, earned_s, 1.0, share * lasts_s)]
    rest_s = float(rules_of().full_use_s(*left)[0])
    assert rest_s == pytest.approx((1 - share) * lasts_s, abs=1e-6)
