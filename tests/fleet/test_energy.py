import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.alone import beyond_tail
from tests.fleet.made_batteries import phase


def test_energy_is_watts_times_seconds_up_to_any_moment():
    timeline = phase(10.0, (2.0, 3.0), (4.0, 0.5))  # 10..12 s at 3 W, 12..16 s at 0.5 W

    assert timeline.energy_until(10.0) == 0.0
    assert timeline.energy_until(11.0) == 3.0
    assert timeline.energy_until(14.0) == 7.0
    assert timeline.energy_until(99.0) == 8.0


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 5)), min_size=1, max_size=6),
    st.floats(0, 3),
    st.floats(-5, 70),
)
def test_tail_and_transfer_together_cost_the_larger_of_both_at_every_moment(
    segments, tail_w, paid_until_s
):
    timeline = phase(0.0, *segments)
    overlap_s = min(max(paid_until_s, 0.0), timeline.end_s)

    together_j = tail_w * overlap_s
    together_j += beyond_tail(timeline, tail_w, paid_until_s).energy_until(timeline.end_s)

    expected_j, now_s = 0.0, 0.0
    for width_s, power_w in segments:
        inside_s = min(max(overlap_s - now_s, 0.0), width_s)
        expected_j += max(power_w, tail_w) * inside_s + power_w * (width_s - inside_s)
        now_s += width_s
    assert together_j == pytest.approx(expected_j, rel=1e-9, abs=1e-9)
