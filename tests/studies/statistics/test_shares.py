import pytest
from scipy import stats

from fleetsim.studies.statistics.shares import survival_sentence, survival_share


def test_seventeen_of_twenty_four_by_hand():
    # z = 1.96: (17 + 1.9207) / (24 + 3.8415) = 0.6796;
    # 1.96 / 27.8415 sqrt(17 * 7 / 24 + 0.9604) = 0.0704 * 2.4327 = 0.1713.
    share = survival_share(17, 24)

    assert share.share == 17 / 24
    assert (share.low, share.high) == pytest.approx((0.5083, 0.8509), abs=2e-4)
    assert survival_sentence("oort", "random", share) == (
        "oort before random in 71 % [51, 85] of 24 plausible fleets."
    )


@pytest.mark.parametrize(("wins", "num"), [(0, 1), (1, 1), (0, 20), (20, 20), (3, 7)])
def test_the_interval_is_that_of_scipy(wins, num):
    expected = stats.binomtest(wins, num).proportion_ci(0.9, method="wilson")
    share = survival_share(wins, num, 0.9)

    assert (share.low, share.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
