"""Weights of selectors whose sum leaves float64, in every aggregator that sums them."""

import numpy as np
import pytest

from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.asynchronous import FedBuffSettings, PolynomialStaleness
from fleetsim.learning.aggregation.fedavg import FedAvgSettings
from fleetsim.learning.aggregation.geometric_median import GeometricMedianSettings
from fleetsim.learning.aggregation.server_optimizers import FedAvgMSettings
from tests.learning.aggregation.reports import report

SUMMING = [FedAvgSettings(), FedAvgMSettings(), GeometricMedianSettings(), FedBuffSettings()]
BASE = np.zeros(2, dtype=np.float32)


def weighed(*weights, **others):
    models = ([1.0, 2.0], [3.0, 6.0])
    return [
        report(client, model, weight=weight, base=BASE, **others)
        for client, (model, weight) in enumerate(zip(models, weights, strict=True))
    ]


@pytest.mark.parametrize("settings", SUMMING, ids=lambda one: one.kind)
@pytest.mark.parametrize("weights", [(1e308, 1e308), (1e308, 1.0), (1e-320, 1e-320)])
def test_weights_that_cannot_be_summed_are_refused(settings, weights):
    with pytest.raises(ScenarioError, match=r"server\.selector: the weights of 2 updates .* sum"):
        settings.build().aggregate(BASE, weighed(*weights))


@pytest.mark.parametrize("settings", SUMMING, ids=lambda one: one.kind)
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_the_scale_of_weights_does_not_matter(settings, scale):
    """(1 * 1 + 3 * 3) / 4 and (1 * 2 + 3 * 6) / 4; the geometric median is at the heavier one."""
    model = settings.build().aggregate(BASE, weighed(scale, 3.0 * scale))

    expected = [3.0, 6.0] if settings.kind == "geometric-median" else [2.5, 5.0]
    tolerance = 0.2 if settings.kind == "geometric-median" else 1e-6
    assert model.tolist() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("shares", [(1e-9, 1e-9), (1e9, 1e9)])
def test_shares_that_make_a_zero_or_an_endless_model_are_refused(shares):
    with pytest.raises(ScenarioError, match="the shares of 2 updates"):
        FedAvgSettings().build().aggregate(BASE, weighed(*shares, is_share=True))


def test_updates_too_stale_to_have_a_weight_move_nothing():
    """(1e6 + 1)^-60 = 1e-360 is 0 in float64: neither parameters nor buffers move."""
    stale = weighed(1.0, 1.0, staleness=1_000_000)
    buffered = FedBuffSettings(staleness=PolynomialStaleness(a=60.0))

    model = buffered.build(buffers=np.array([False, True])).aggregate(BASE + 0.5, stale)

    assert model.tolist() == [0.5, 0.5]
