import math

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Parameters, Report
from fleetsim.errors import DivergenceError, ScenarioError
from fleetsim.learning.aggregation import robust_rules
from fleetsim.learning.aggregation.robust_rules import (
    GeometricMedianSettings,
    KrumSettings,
    MedianSettings,
    TrimmedMeanSettings,
    Updates,
)
from fleetsim.learning.aggregation.settings import AggregatorSettings
from tests.learning.aggregation.reports import report, vector

ROBUST = [
    MedianSettings(),
    TrimmedMeanSettings(trimmed_fraction=0.25),
    KrumSettings(num_byzantine=0),
    GeometricMedianSettings(iterations=200),
]
every_rule = pytest.mark.parametrize("settings", ROBUST, ids=lambda settings: settings.kind)


def sent(*models: tuple[float, ...]) -> list[Report]:
    """Delivered models of clients 0, 1, ... with 1, 2, ... samples."""
    return [report(client, values, client + 1) for client, values in enumerate(models)]


def aggregated(settings: AggregatorSettings, *models: tuple[float, ...]) -> list[float]:
    base = np.zeros(len(models[0]), dtype=np.float32)
    made: list[float] = settings.build().aggregate(base, sent(*models)).tolist()
    return made


def test_the_median_of_each_coordinate_by_hand() -> None:
    """Of 1, 2, 9: 2; of 5, -1, 4: 4. With a fourth client, (2 + 3) / 2 and (4 + 5) / 2."""
    three = ((1.0, 5.0), (9.0, -1.0), (2.0, 4.0))

    assert aggregated(MedianSettings(), *three) == [2.0, 4.0]
    assert aggregated(MedianSettings(), *three, (3.0, 100.0)) == [2.5, 4.5]


def test_the_trimmed_mean_by_hand() -> None:
    """floor(.4 * 5) = 2 at either end leaves the median 3; floor(.2 * 5) = 1 leaves (2+3+7)/3;
    below .2 nothing is left out, 1013 / 5."""
    models = ((7.0,), (1.0,), (3.0,), (2.0,), (1000.0,))

    assert aggregated(TrimmedMeanSettings(trimmed_fraction=0.4), *models) == [3.0]
    assert aggregated(TrimmedMeanSettings(trimmed_fraction=0.2), *models) == [4.0]
    assert aggregated(TrimmedMeanSettings(trimmed_fraction=0.19), *models) == [np.float32(202.6)]


def test_krum_by_hand() -> None:
    """n = 5, f = 1: two neighbours each. Of 0, 1, 3, 4.5, 100 the scores are
    1 + 9 = 10, 1 + 4 = 5, 4 + 2.25 = 6.25, 2.25 + 12.25 = 14.5 and 95.5^2 + 97^2."""
    models = ((4.5,), (100.0,), (1.0,), (0.0,), (3.0,))

    assert aggregated(KrumSettings(num_byzantine=1), *models) == [1.0]
    assert aggregated(KrumSettings(num_byzantine=1, num_chosen=2), *models) == [2.0]
    assert aggregated(KrumSettings(num_byzantine=1, num_chosen=4), *models) == [2.125]
    # Of equal scores the smallest client: with one neighbour 0 and 2 are both 1 away from 1.
    assert aggregated(KrumSettings(num_byzantine=0), (2.0,), (1.0,), (0.0,)) == [2.0]


def test_the_geometric_median_of_a_triangle_is_its_fermat_point() -> None:
    """An isosceles triangle with base from (-1, 0) to (1, 0) and apex (0, 3): all angles at the
    point are 120 degrees, so that it is at (0, 1 / sqrt 3)."""
    settings = GeometricMedianSettings(weights="uniform", iterations=500)
    x, y = aggregated(settings, (-1.0, 0.0), (1.0, 0.0), (0.0, 3.0))

    assert x == pytest.approx(0.0, abs=1e-6)
    assert y == pytest.approx(1.0 / math.sqrt(3.0), abs=1e-6)


def test_steps_of_weiszfeld_by_hand() -> None:
    """Weights 1/4 and 3/4 of 0 and 8: mean 6, distances 6 and 2, b = 1/24 and 3/8 = 9/24,
    v = 9/10 * 8 = 7.2; then distances 7.2 and .8, b = 5/144 and 135/144, v = 135/140 * 8."""
    reports = [report(0, [0.0], 1), report(1, [8.0], 3)]

    for iterations, expected in ((1, 7.2), (2, 8.0 * 135.0 / 140.0)):
        aggregator = GeometricMedianSettings(iterations=iterations).build()
        assert aggregator.aggregate(vector(0.0), reports) == pytest.approx([expected], rel=1e-6)
    # From the mean 2 of 0, 0, 6 and nu = 4: b = 1/12, 1/12, 1/12, so that it stays at 2.
    smooth = GeometricMedianSettings(weights="uniform", smoothing=4.0, iterations=1)
    assert aggregated(smooth, (0.0,), (0.0,), (6.0,)) == [2.0]


@every_rule
def test_one_wild_client_moves_the_model_no_further_than_the_others_reach(settings):
    if isinstance(settings, KrumSettings):
        settings = KrumSettings(num_byzantine=1)
    honest = [tuple(rng.stream(3, "honest", k).normal(1.0, 0.1, 6).tolist()) for k in range(6)]
    made = np.array(aggregated(settings, *honest, (-1e6,) * 6))

    assert (made >= np.min(honest, axis=0) - 1e-3).all()
    assert (made <= np.max(honest, axis=0) + 1e-3).all()


def test_blocks_give_what_the_whole_gives() -> None:
    """More numbers than a block of 262,144 holds, against numpy on the whole."""
    models = np.stack([rng.stream(4, "wide", k).standard_normal(70_001) for k in range(5)])
    models = models.astype(np.float32)
    base = np.zeros(models.shape[1], dtype=np.float32)
    reports = [report(client, row) for client, row in enumerate(models)]
    wide = models.astype(np.float64)
    apart = np.square(wide[:, None] - wide[None]).sum(axis=2)

    squares = robust_rules.squared_distances(Updates.of(base, reports, None))
    median = MedianSettings().build().aggregate(base, reports)
    trimmed = TrimmedMeanSettings(trimmed_fraction=0.2).build().aggregate(base, reports)

    assert np.allclose(squares, apart, rtol=1e-12)
    assert np.array_equal(median, np.median(models, axis=0))
    assert np.allclose(trimmed, np.sort(wide, axis=0)[1:4].mean(axis=0), rtol=1e-6)


@every_rule
def test_a_stale_update_counts_by_its_change_but_in_buffers(settings: AggregatorSettings) -> None:
    """All three moved the model they were sent by 2: so does the server. A variance fell from 9 to
    1 at all clients; the server's is 4, and 4 - 8 would be no variance."""
    reports = [
        report(client, [start + 2.0, 1.0], base=vector(start, 9.0), staleness=client)
        for client, start in enumerate((0.0, 10.0, -5.0))
    ]
    aggregator = settings.build(buffers=np.array([False, True]))

    assert aggregator.aggregate(vector(100.0, 4.0), reports).tolist() == [102.0, 1.0]


def test_buffers_do_not_choose_in_krum_nor_pull_the_geometric_median() -> None:
    """By parameters alone client 0 has the least score, and all three models are the same."""
    buffers = np.array([False, True])
    far = [report(0, [1.0, 5000.0]), report(1, [1.0, 3.0]), report(2, [1.0, 4.0])]

    krum, middle = KrumSettings(num_byzantine=0), GeometricMedianSettings(weights="uniform")
    chosen, mean = (
        rule.build(buffers=buffers).aggregate(vector(0, 0), far).tolist() for rule in (krum, middle)
    )

    assert chosen == [1.0, 5000.0]
    assert mean == pytest.approx([1.0, 5007.0 / 3.0])


@pytest.mark.parametrize("settings", ROBUST[:3], ids=lambda settings: settings.kind)
def test_rules_that_count_all_the_same_refuse_weights_and_parts(settings):
    weighed = [report(client, [1.0], weight=2.0) for client in range(3)]
    part = [report(client, [1.0], weight_fraction=0.5) for client in range(3)]

    with pytest.raises(ScenarioError, match=rf"{settings.kind}.*weights.*client 0: 2"):
        settings.build().aggregate(vector(0.0), weighed)
    with pytest.raises(ScenarioError, match=r"client 0 counts for 0.5.*weight: samples"):
        settings.build().aggregate(vector(0.0), part)


def test_the_geometric_median_takes_weights_and_refuses_shares() -> None:
    """Weights 3 and 1 are samples 3 and 1; half of a part of 6 samples is 3."""

    def made(*reports: Report) -> Parameters:
        return GeometricMedianSettings(iterations=1).build().aggregate(vector(0.0), reports)

    given = made(report(0, [0.0], 7, weight=1.0), report(1, [8.0], 7, weight=3.0))
    part = made(report(0, [0.0], 1), report(1, [8.0], 6, weight_fraction=0.5))

    assert given.tolist() == part.tolist() == pytest.approx([7.2], rel=1e-6)
    with pytest.raises(ScenarioError, match=r"shares.*client 0: 0.25"):
        made(report(0, [1.0], weight=0.25, is_share=True))
    with pytest.raises(ValueError, match="with weight"):
        made(report(0, [1.0], 0))


def test_krum_needs_enough_updates() -> None:
    least = [KrumSettings(num_byzantine=1, num_chosen=num).least_updates for num in (1, 9)]

    assert least == [5, 9]
    with pytest.raises(ValueError, match="4 updates to aggregate, at least 5"):
        aggregated(KrumSettings(num_byzantine=1), *[(1.0,)] * 4)


@every_rule
def test_an_overflow_of_float32_is_an_error(settings: AggregatorSettings) -> None:
    large = float(np.float32(3e38))
    reports = [report(client, [large], base=vector(-large)) for client in range(3)]

    with pytest.raises(DivergenceError, match="leaves the range of float32"):
        settings.build().aggregate(vector(0.0), reports)
