import math

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.privacy import CentralPrivacySettings, PrivateAggregator
from fleetsim.learning.aggregation.server_optimizers import FedAvgMSettings
from fleetsim.learning.aggregation.weighted_mean import FedAvgSettings
from tests.learning.aggregation.reports import report, vector

FEDAVG = FedAvgSettings(weights="uniform")


def settings(*, clip: float = 5.0, noise: float = 1.0) -> CentralPrivacySettings:
    return CentralPrivacySettings(clip_norm=clip, noise_multiplier=noise, delta=1e-5)


def private(
    of: CentralPrivacySettings, *, cohort: int = 2, seed: int = 1, inner: object = FEDAVG
) -> PrivateAggregator:
    return PrivateAggregator(of, inner.build(), seed=seed, cohort=cohort)  # type: ignore[attr-defined]


def test_updates_are_clipped_and_divided_by_the_cohort_by_hand() -> None:
    """Change (6, 8) of norm 10 is clipped to (3, 4), (3, 0) stays: (6, 4) / 4, plus the noise
    5 * z / 4 on each coordinate; the model they were sent is (1, 1)."""
    start = vector(1.0, 1.0)
    reports = [report(0, [7.0, 9.0], base=start), report(1, [4.0, 1.0], base=start)]

    made = private(settings(noise=0.001), cohort=4).aggregate(start, reports)

    noise = rng.stream(1, "privacy noise", 0).standard_normal(2)
    expected = np.array([2.5, 2.0]) + 0.001 * 5.0 / 4.0 * noise
    assert made.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_one_client_more_or_less_moves_the_sum_by_at_most_the_clip_norm() -> None:
    start = vector(0.0, 0.0, 0.0)
    others = [
        report(k, rng.stream(2, "change", k).normal(0, 9, 3).tolist(), base=start) for k in range(4)
    ]
    wild = report(9, [1e6, -1e6, 3.0], base=start)

    without = private(settings(clip=2.0)).aggregate(start, others)
    with_it = private(settings(clip=2.0)).aggregate(start, [*others, wild])

    assert 2 * np.linalg.norm(with_it.astype(float) - without) == pytest.approx(2.0, rel=1e-5)


def test_the_noise_has_the_spread_that_the_accountant_supposes() -> None:
    """20,000 coordinates of z S / C = 1.5 * 4 / 3 = 2; the standard error of the spread is 1 %."""
    start = np.zeros(20_000, dtype=np.float32)
    made = private(settings(clip=4.0, noise=1.5), cohort=3).aggregate(start, [report(0, start)])

    assert made.std() == pytest.approx(2.0, rel=0.03)
    assert abs(made.mean()) < 4 * 2.0 / math.sqrt(made.size)


def test_each_aggregation_and_each_seed_has_noise_of_its_own_also_after_a_resume() -> None:
    start = vector(*([0.0] * 8))
    sent = [report(0, start, base=start)]
    one, other = private(settings()), private(settings(), seed=2)
    first, second = one.aggregate(start, sent), one.aggregate(start, sent)
    resumed = private(settings())
    resumed.restore(one.state())

    assert not np.array_equal(first, second)
    assert not np.array_equal(first, other.aggregate(start, sent))
    assert np.array_equal(resumed.aggregate(start, sent), one.aggregate(start, sent))
    assert np.array_equal(first, private(settings()).aggregate(start, sent))


def test_a_server_optimizer_takes_the_noisy_mean_for_its_gradient() -> None:
    """In units of the clip norm: u = 1, then .5 * 1 + 1 = 1.5; the model goes 0, 1, 2.5, but for
    a thousandth of noise."""
    inner = FedAvgMSettings(learning_rate=1.0, momentum=0.5, weights="uniform")
    aggregator = private(settings(clip=1e-3, noise=1e-3), cohort=1, inner=inner)
    steps = [vector(0.0)]
    for _ in range(2):
        steps.append(aggregator.aggregate(steps[-1], [report(0, steps[-1] + 1.0, base=steps[-1])]))
    state = aggregator.state()

    assert steps[1].tolist() == pytest.approx([1e-3], abs=1e-5)
    assert steps[2].tolist() == pytest.approx([2.5e-3], abs=1e-5)
    assert set(state) == {"num_aggregations", "aggregator/velocity"}


def test_parts_stale_models_weights_and_buffers() -> None:
    """A part counts for its share of the clipped update, .5 * 5. Of a stale model the change
    counts, from the model that was sent: 3 - 2 = 1."""
    part = report(0, [50.0], base=vector(0.0), weight_fraction=0.5)
    late = report(0, [3.0], base=vector(2.0))

    for start, sent, expected in ((0.0, part, 2.5), (10.0, late, 11.0)):
        made = private(settings(noise=1e-3), cohort=1).aggregate(vector(start), [sent])
        assert made.tolist() == pytest.approx([expected], abs=0.05)
    with pytest.raises(ScenarioError, match=r"server\.privacy .*client 0: 2"):
        private(settings()).aggregate(vector(0.0), [late._replace(weight=2.0)])
    buffers = np.array([False, True])
    with pytest.raises(ScenarioError, match=r"1 numbers of BatchNorm.*norm: group"):
        PrivateAggregator(settings(), FEDAVG.build(), seed=1, cohort=1, buffers=buffers)


def test_without_a_finite_update_there_is_no_model():
    with pytest.raises(ValueError, match="none of 0 reports"):
        private(settings()).aggregate(vector(0.0), [])
    with pytest.raises(ValueError, match=r"client 0 .* not finite"):
        private(settings()).aggregate(vector(0.0), [report(0, [np.nan])])
