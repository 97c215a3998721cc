from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Outcome, Parameters, Report
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.asynchronous import FedBuffSettings, PolynomialStaleness
from fleetsim.learning.aggregation.robust_rules import GeometricMedianSettings
from fleetsim.learning.aggregation.server_optimizers import FedAvgMSettings
from fleetsim.learning.aggregation.weighted_mean import FedAvgSettings
from tests.learning.aggregation.reports import report

SAMPLES = FedAvgSettings(weights="samples")
UNIFORM = FedAvgSettings(weights="uniform")
BASE = np.zeros(2, dtype=np.float32)


def aggregate(settings: FedAvgSettings, reports: Sequence[Report]) -> Parameters:
    return settings.build().aggregate(BASE, reports)


def test_clients_count_by_their_samples_or_the_same() -> None:
    """(1*3 + 3*7) / 4 = 6 and (1*8 + 3*0) / 4 = 2; else (3 + 7) / 2 and (8 + 0) / 2."""
    reports = [report(0, [3, 8], 1), report(1, [7, 0], 3)]

    assert aggregate(SAMPLES, reports).tolist() == [6, 2]
    assert aggregate(UNIFORM, reports).tolist() == [5, 4]


def test_a_part_may_count_for_less_than_a_whole() -> None:
    """By samples 1/3 * 3 = 1 and 3 of 4; each the same 1/3 and 1 of 4/3."""
    part = report(0, [8, 4], 3)._replace(completed_fraction=1 / 3, weight_fraction=1 / 3)
    whole = report(1, [0, 8], 3)

    assert aggregate(SAMPLES, [part, whole]).tolist() == pytest.approx([2, 7])
    assert aggregate(UNIFORM, [part, whole]).tolist() == pytest.approx([2, 7])
    assert aggregate(SAMPLES, [part._replace(weight_fraction=1.0), whole]).tolist() == [4, 6]


def weighed(*weights: float, are_shares: bool = False) -> list[Report]:
    """Models (8, 4), (0, 8), ... of clients with 3, 1, ... samples that a selector gave weights."""
    models = [report(0, [8, 4], 3), report(1, [0, 8], 1)]
    return [
        one._replace(weight=weight, is_share=are_shares)
        for one, weight in zip(models, weights, strict=True)
    ]


@pytest.mark.parametrize("settings", [SAMPLES, UNIFORM])
def test_weights_of_a_selector_stand_for_samples_and_for_ones(settings: FedAvgSettings) -> None:
    """(1 * 8 + 3 * 0) / 4 and (1 * 4 + 3 * 8) / 4; as shares, 8/8 and 4/8 + 3/8 * 8.

    Of a part a third of the weight 3 counts: (1 * 8 + 1 * 0) / 2 and (4 + 8) / 2; as a share,
    1 * 8 and 4 + 8."""
    part, whole = weighed(3.0, 1.0)
    part = part._replace(completed_fraction=1 / 3, weight_fraction=1 / 3)
    parts = [one._replace(is_share=True) for one in (part, whole)]

    assert aggregate(settings, weighed(1.0, 3.0)).tolist() == [2, 7]
    assert aggregate(settings, weighed(1 / 8, 3 / 8, are_shares=True)).tolist() == [1, 3.5]
    assert aggregate(settings, [part, whole]).tolist() == pytest.approx([4, 6])
    assert aggregate(settings, parts).tolist() == pytest.approx([8, 12])


def test_shares_of_some_and_models_without_weight_or_of_another_size_are_refused() -> None:
    one, other = weighed(0.5, 0.5, are_shares=True)
    late = other._replace(is_share=False, outcome=Outcome.LATE)

    assert aggregate(SAMPLES, [one, late]).tolist() == [4, 2]
    for reports, message in (
        ([one, other._replace(is_share=False)], "client 0 was chosen with a share of the next mod"),
        ([report(0, [1, 1], 0)], "none of 1 reports"),
        ([report(4, [1, 1, 1])], r"client 4 sent \(3,\) weights for a model of \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            aggregate(SAMPLES, reports)


def test_small_terms_survive_beside_large_ones() -> None:
    """In float32 1e8 + 1 is 1e8; the sum 1e8 + 1 - 1e8 must still be 1."""
    reports = [report(0, [1e8, 0]), report(1, [1, 0]), report(2, [-1e8, 0])]

    assert aggregate(UNIFORM, reports)[0] == np.float32(1 / 3)


def test_every_weight_of_a_model_of_many_blocks_is_summed_and_checked() -> None:
    vectors = rng.stream(3, "vectors").standard_normal((3, 100_001)).astype(np.float32)
    reports = [report(client, vector, client + 1) for client, vector in enumerate(vectors)]
    plain = np.array([1.0, 2.0, 3.0]) @ vectors.astype(np.float64) / 6.0

    base = np.zeros(100_001, dtype=np.float32)
    mean = SAMPLES.build().aggregate(base, reports)

    np.testing.assert_allclose(mean, plain, rtol=1e-6)
    vectors[2, -1] = np.nan
    with pytest.raises(ValueError, match="client 2 sent 1 weights of 100001"):
        SAMPLES.build().aggregate(base, [report(2, vectors[2])])


SUMMING = [FedAvgSettings(), FedAvgMSettings(), GeometricMedianSettings(), FedBuffSettings()]
"""Every aggregator that sums the weights of a selector."""


def heavy(*weights: float, **others: Any) -> list[Report]:
    one, other = (
        report(client, [c, 2 * c], base=BASE, **others) for client, c in enumerate((1, 3))
    )
    return [one._replace(weight=weights[0]), other._replace(weight=weights[1])]


@pytest.mark.parametrize("settings", SUMMING, ids=lambda one: one.kind)
@pytest.mark.parametrize("weights", [(1e308, 1e308), (1e308, 1.0), (1e-320, 1e-320)])
def test_weights_that_cannot_be_summed_are_refused(settings, weights):
    with pytest.raises(ScenarioError, match=r"server\.selector: the weights of 2 updates .* sum"):
        settings.build().aggregate(BASE, heavy(*weights))


@pytest.mark.parametrize("settings", SUMMING, ids=lambda one: one.kind)
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_the_scale_of_weights_does_not_matter(settings, scale):
    """(1 * 1 + 3 * 3) / 4 and (1 * 2 + 3 * 6) / 4; the geometric median is at the heavier one."""
    model = settings.build().aggregate(BASE, heavy(scale, 3.0 * scale))

    expected = [3.0, 6.0] if settings.kind == "geometric-median" else [2.5, 5.0]
    tolerance = 0.2 if settings.kind == "geometric-median" else 1e-6
    assert model.tolist() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("shares", [(1e-9, 1e-9), (1e9, 1e9)])
def test_shares_that_make_a_zero_or_an_endless_model_are_refused(shares):
    with pytest.raises(ScenarioError, match="the shares of 2 updates"):
        FedAvgSettings().build().aggregate(BASE, heavy(*shares, is_share=True))


def test_updates_too_stale_to_have_a_weight_move_nothing():
    """(1e6 + 1)^-60 = 1e-360 is 0 in float64: neither parameters nor buffers move."""
    stale = heavy(1.0, 1.0, staleness=1_000_000)
    buffered = FedBuffSettings(staleness=PolynomialStaleness(a=60.0))

    model = buffered.build(buffers=np.array([False, True])).aggregate(BASE + 0.5, stale)

    assert model.tolist() == [0.5, 0.5]
