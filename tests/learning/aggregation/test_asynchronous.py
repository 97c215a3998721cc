import numpy as np
import pytest

from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.asynchronous import (
    ConstantStaleness,
    FedAsyncSettings,
    FedBuffSettings,
    HingeStaleness,
    PolynomialStaleness,
)
from tests.learning.aggregation.reports import report, vector

ZERO, ONE = vector(0.0, 0.0), vector(1.0, 1.0)
FRESH = report(0, [2.0, 4.0], 10, base=ONE)
OLD = report(1, [8.0, 0.0], 20, base=ZERO, staleness=3, finished_at_s=5.0)


@pytest.mark.parametrize(
    ("settings", "staleness", "weight"),
    [
        (ConstantStaleness(), 7, 1.0),
        (PolynomialStaleness(a=0.5), 0, 1.0),
        (PolynomialStaleness(a=0.5), 8, 1 / 3),
        (HingeStaleness(a=10.0, b=6), 6, 1.0),
        (HingeStaleness(a=10.0, b=6), 8, 1 / 21),
    ],
)
def test_the_weight_of_an_old_update_is_that_of_the_paper(settings, staleness, weight):
    assert settings.weight(staleness) == pytest.approx(weight)


def test_a_part_that_counts_for_less_does_so_beside_its_staleness():
    # FedBuff: s = 1/2 and half of it: 1 + 1/2 * ((1, 3) + 1/4 (8, 0)). FedAsync: share .4 / 4.
    part = OLD._replace(completed_fraction=0.5, weight_fraction=0.5)
    buffered = FedBuffSettings(staleness=PolynomialStaleness(a=0.5)).build()
    one_by_one = FedAsyncSettings(mixing=0.4, staleness=PolynomialStaleness(a=0.5)).build()

    assert buffered.aggregate(ONE, [FRESH, part]).tolist() == pytest.approx([2.5, 2.5])
    assert one_by_one.aggregate(ONE, [part]).tolist() == pytest.approx([1.7, 0.9])


def test_fedbuff_steps_along_the_mean_change_from_each_updates_own_base():
    # s(0) = 1, s(3) = 1/2. Changes (1, 3) and (8, 0): w = 1 + 2/2 * ((1, 3) + (4, 0)).
    settings = FedBuffSettings(server_learning_rate=2.0, staleness=PolynomialStaleness(a=0.5))

    assert settings.build().aggregate(ONE, [FRESH, OLD]).tolist() == [6.0, 4.0]


def test_weights_of_a_selector_weigh_the_buffers_mean():
    # Changes (1, 3) of weight 1 and, at s(3) = 1/2, (8, 0) of 3: 1 + ((1, 3) + 3/2 (8, 0)) / 4,
    # and 1 + (1, 3) + 3/2 (8, 0) where the weights are shares.
    aggregator = FedBuffSettings(staleness=PolynomialStaleness(a=0.5)).build()
    given = [FRESH._replace(weight=1.0), OLD._replace(weight=3.0)]
    shares = [report._replace(is_share=True) for report in given]

    assert aggregator.aggregate(ONE, given).tolist() == [4.25, 1.75]
    assert aggregator.aggregate(ONE, shares).tolist() == [14.0, 4.0]


def test_fedasync_mixes_updates_in_the_order_of_arrival_and_has_no_mean_for_weights():
    # OLD arrives first with share 0.5 * 1/2, then FRESH with 0.5:
    # (0.75 + 2, 0.75) = (2.75, 0.75), then the mean with (2, 4).
    aggregator = FedAsyncSettings(mixing=0.5, staleness=PolynomialStaleness(a=0.5)).build()

    assert aggregator.aggregate(ONE, [FRESH, OLD]).tolist() == [2.375, 2.375]
    with pytest.raises(ScenarioError, match=r"client 1: 2\); use fedbuff or fedavg"):
        aggregator.aggregate(ONE, [FRESH, OLD._replace(weight=2.0)])


def test_fedbuff_averages_buffers_and_steps_along_parameters() -> None:
    """Step 2/2 ((2 - 1) + .5 (8 - 0)) on top of 1; mean (1 * 4 + .5 * 1) / 1.5 of the buffers.

    As a step the buffer would be 1 + (4 - 1) + .5 (1 - 9) = 0, and soon negative.
    """
    late = OLD._replace(vector=vector(8.0, 1.0), base=vector(0.0, 9.0))
    settings = FedBuffSettings(server_learning_rate=2.0)
    aggregator = settings.build(buffers=np.array([False, True]))

    np.testing.assert_allclose(aggregator.aggregate(ONE, [FRESH, late]), [6.0, 3.0])
