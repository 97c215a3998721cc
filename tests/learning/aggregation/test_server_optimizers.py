from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.contracts import BoolArray, Parameters, Report
from fleetsim.errors import DivergenceError, ScenarioError
from fleetsim.learning.aggregation import server_optimizers as servers
from fleetsim.learning.aggregation.asynchronous import (
    ConstantStaleness,
    FedAsyncSettings,
    FedBuffSettings,
    HingeStaleness,
    PolynomialStaleness,
)
from fleetsim.learning.aggregation.settings import AggregatorSettings
from fleetsim.learning.aggregation.weighted_mean import FedAvgSettings
from tests.learning.aggregation.reports import report, vector


def sent(*updates: tuple[int, Sequence[float] | Parameters]) -> list[Report]:
    """Delivered reports of clients 0, 1, ...: samples and model each."""
    return [report(client, values, num) for client, (num, values) in enumerate(updates)]


def walk(settings: AggregatorSettings, *changes: float) -> list[float]:
    """Return the path of a model of one weight from 0, if one client changes it by so much."""
    aggregator = settings.build()
    model = vector(0.0)
    path = []
    for change in changes:
        model = aggregator.aggregate(model, sent((1, model + np.float32(change))))
        path.append(float(model[0]))
    return path


def test_defaults_are_those_of_the_papers() -> None:
    """Reddi et al. 2021: momentum .9 (FedAvgM), beta1 .9 and beta2 .99 (FedAdam, FedYogi), beta1 0
    (FedAdagrad), tau .001; Hsu et al. 2019: a step of 1."""
    adam, yogi = (
        servers.FedAdamSettings(learning_rate=1.0),
        servers.FedYogiSettings(learning_rate=1.0),
    )
    adagrad, momentum = servers.FedAdagradSettings(learning_rate=1.0), servers.FedAvgMSettings()

    assert (momentum.momentum, momentum.learning_rate) == (0.9, 1.0)
    assert (adagrad.beta1, adagrad.tau) == (0.0, 1e-3)
    assert (adam.beta1, adam.beta2, adam.tau) == (0.9, 0.99, 1e-3)
    assert (yogi.beta1, yogi.beta2, yogi.tau) == (0.9, 0.99, 1e-3)


def test_fedavgm_by_hand() -> None:
    """Delta = (1*4 + 3*8)/4 = 7, u = 7, w = 0 + 7/2 = 3.5;
    then Delta = 5.5 - 3.5 = 2, u = 7/2 + 2 = 5.5, w = 3.5 + 5.5/2 = 6.25."""
    aggregator = servers.FedAvgMSettings(momentum=0.5, learning_rate=0.5).build()

    first = aggregator.aggregate(vector(0.0), sent((1, [4.0]), (3, [8.0])))
    second = aggregator.aggregate(first, sent((1, [5.5])))

    assert (first.tolist(), second.tolist()) == ([3.5], [6.25])


BY_HAND = [
    # v = 3^2 + 4^2 = 5^2, w = 2 * 4/(5 + 3) = 1; v = 5^2 + 12^2 = 13^2, w = 1 + 2 * 12/(13 + 3).
    (servers.FedAdagradSettings(learning_rate=2.0, tau=3.0), (4.0, 12.0), [1.0, 2.5]),
    # As above with m = 4/2 = 2, w = 2 * 2/8 = .5; m = 2/2 + 12/2 = 7, w = .5 + 2 * 7/16.
    (servers.FedAdagradSettings(learning_rate=2.0, tau=3.0, beta1=0.5), (4.0, 12.0), [0.5, 1.375]),
    # v = (1 + 7^2)/2 = 5^2, m = 7/2, w = 78 * 3.5/(5 + 1) = 45.5;
    # v = (5^2 + 35^2)/2 = 25^2, m = 3.5/2 + 35/2 = 19.25, w = 45.5 + 78 * 19.25/(25 + 1).
    (
        servers.FedAdamSettings(learning_rate=78.0, beta1=0.5, beta2=0.5, tau=1.0),
        (7.0, 35.0),
        [45.5, 103.25],
    ),
    # v = 1 + 1.5^2/4 = 1.25^2 as 1.5^2 > 1, m = .75, w = 3 * .75/(1.25 + 1) = 1;
    # v = 1.25^2 - .7^2/4 = 1.2^2 as .7^2 < 1.25^2, m = .75/2 + .7/2 = .725,
    # w = 1 + 3 * .725/(1.2 + 1).
    (
        servers.FedYogiSettings(learning_rate=3.0, beta1=0.5, beta2=0.75, tau=1.0),
        (1.5, 0.7),
        [1.0, 1.0 + 3 * 0.725 / 2.2],
    ),
]


@pytest.mark.parametrize(("settings", "changes", "path"), BY_HAND)
def test_adaptive_optimizers_by_hand(settings, changes, path) -> None:
    assert walk(settings, *changes) == pytest.approx(path, rel=1e-6)


weights = st.floats(-1e3, 1e3, width=32)


@given(weights, st.lists(weights, min_size=1, max_size=5))
def test_fedavgm_without_momentum_is_fedavg(base: float, models: list[float]) -> None:
    """To one unit in the last place of the larger of base and mean, which are subtracted."""
    reports = sent(*((n + 1, [model]) for n, model in enumerate(models)))
    plain = FedAvgSettings().build().aggregate(vector(base), reports)

    moved = servers.FedAvgMSettings(momentum=0.0).build().aggregate(vector(base), reports)

    assert abs(moved - plain)[0] <= np.spacing(np.maximum(abs(plain), np.abs(vector(base))))[0]


ALL: list[AggregatorSettings] = [
    servers.FedAvgMSettings(),
    servers.FedAdagradSettings(learning_rate=0.1),
    servers.FedAdamSettings(learning_rate=0.1),
    servers.FedYogiSettings(learning_rate=0.1),
]
every_optimizer = pytest.mark.parametrize("settings", ALL, ids=lambda settings: settings.kind)


@every_optimizer
def test_buffers_take_the_mean_and_parameters_the_step(settings: AggregatorSettings) -> None:
    """A running variance falling to 1 must not be carried below 0 by momentum."""
    aggregator = settings.build(buffers=np.array([False, True]))
    plain = settings.build()
    model = vector(1.0, 1.0)
    for variance in (0.5, 0.25, 0.125):
        reports = sent((1, [float(model[0]) - 0.5, variance]))
        one_weight = plain.aggregate(model[:1], sent((1, [float(model[0]) - 0.5])))
        model = aggregator.aggregate(model, reports)

        assert model.tolist() == [one_weight[0], variance]


@every_optimizer
def test_a_step_beyond_float32_is_refused_and_forgotten(settings: AggregatorSettings) -> None:
    """The largest float32 is 3.4e38; the next aggregation knows nothing of what was refused."""
    eager = settings.model_copy(update={"learning_rate": 1e39})  # not validated
    aggregator = eager.build()

    with pytest.raises(DivergenceError, match="leaves the range of float32"):
        aggregator.aggregate(vector(0.0), sent((1, [3e38])))
    assert aggregator.state() == {}


@every_optimizer
def test_a_stale_update_counts_by_what_its_client_changed_but_in_buffers(settings):
    """From 5 to 6 is a change by 1, also where the model has moved on to 100. A variance that fell
    from 9 to 4 elsewhere must not make ours, 1, fall below 0."""
    stale = sent((1, [6.0, 4.0]))[0]._replace(base=vector(5.0, 9.0), staleness=3)
    aggregator = settings.build(buffers=np.array([False, True]))
    moved = aggregator.aggregate(vector(100.0, 1.0), [stale])
    (fresh,) = settings.build().aggregate(vector(100.0), sent((1, [101.0])))

    assert moved.tolist() == [fresh, 4.0]


@every_optimizer
def test_weights_of_a_selector_weigh_the_changes(settings: AggregatorSettings) -> None:
    """(3 * 1 + 1 * -1) / 4 = .5, as of one client that changes by a half; as shares, 3 - 1 = 2.
    Buffers are averaged also then, (.3 * 1 + .1 * 5) / .4: as a sum a variance would be .8."""

    def step(*given: Report, buffers: BoolArray | None = None, start: float = 5.0) -> float:
        return float(settings.build(buffers=buffers).aggregate(vector(start), given)[0])

    def weighed(models: tuple[float, float], *weights: float, is_share: bool) -> list[Report]:
        pairs = zip(sent(*((1, [model]) for model in models)), weights, strict=True)
        return [one._replace(weight=weight, is_share=is_share) for one, weight in pairs]

    assert step(*weighed((6.0, 4.0), 3.0, 1.0, is_share=False)) == step(*sent((1, [5.5])))
    assert step(*weighed((6.0, 4.0), 3.0, 1.0, is_share=True)) == step(*sent((1, [7.0])))
    variances = weighed((1.0, 5.0), 0.3, 0.1, is_share=True)
    assert step(*variances, buffers=np.array([True]), start=1.0) == pytest.approx(2.0)


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
