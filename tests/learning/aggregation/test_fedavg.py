from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng, scenario
from fleetsim.contracts import Outcome, Parameters, Report
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.fedavg import FedAvgSettings
from tests.learning.aggregation.reports import report

SAMPLES = FedAvgSettings(weights="samples")
UNIFORM = FedAvgSettings(weights="uniform")
BASE = np.zeros(2, dtype=np.float32)


def aggregate(settings: FedAvgSettings, reports: Sequence[Report]) -> Parameters:
    return settings.build().aggregate(BASE, reports)


def test_clients_count_by_their_samples() -> None:
    """(1*3 + 3*7) / 4 = 6 and (1*8 + 3*0) / 4 = 2."""
    mean = aggregate(SAMPLES, [report(0, [3, 8], 1), report(1, [7, 0], 3)])

    assert mean.tolist() == [6, 2]
    assert mean.dtype == np.float32


def test_clients_count_the_same_when_asked_to() -> None:
    assert aggregate(UNIFORM, [report(0, [3, 8], 1), report(1, [7, 0], 3)]).tolist() == [5, 4]


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
    """(1 * 8 + 3 * 0) / 4 and (1 * 4 + 3 * 8) / 4; as shares, 8/8 and 4/8 + 3/8 * 8."""
    assert aggregate(settings, weighed(1.0, 3.0)).tolist() == [2, 7]
    shares = weighed(1 / 8, 3 / 8, are_shares=True)
    assert aggregate(settings, shares).tolist() == [1, 3.5]


def test_a_part_counts_for_less_than_the_weight_that_its_client_was_given() -> None:
    """A third of the weight 3: (1 * 8 + 1 * 0) / 2 and (4 + 8) / 2; as a share, 1 * 8 and 4 + 8."""
    part, whole = weighed(3.0, 1.0)
    part = part._replace(completed_fraction=1 / 3, weight_fraction=1 / 3)

    assert aggregate(SAMPLES, [part, whole]).tolist() == pytest.approx([4, 6])
    shares = [one._replace(is_share=True) for one in (part, whole)]
    assert aggregate(SAMPLES, shares).tolist() == pytest.approx([8, 12])


def test_shares_are_given_to_all_or_to_none() -> None:
    one, other = weighed(0.5, 0.5, are_shares=True)

    with pytest.raises(ValueError, match="client 0 was chosen with a share of the next model"):
        aggregate(SAMPLES, [one, other._replace(is_share=False)])
    late = other._replace(is_share=False, outcome=Outcome.LATE)
    assert aggregate(SAMPLES, [one, late]).tolist() == [4, 2]


def test_only_delivered_models_count() -> None:
    reports = [
        report(0, [3, 8], 1),
        report(1, None, 100, outcome=Outcome.LATE),
        report(2, [9, 9], 100, outcome=Outcome.OFFLINE),
        report(3, None, 100),
    ]

    assert aggregate(SAMPLES, reports).tolist() == [3, 8]


def test_clients_without_samples_have_no_weight_together() -> None:
    with pytest.raises(ValueError, match="none of 1 reports"):
        aggregate(SAMPLES, [report(0, [1, 1], 0)])


def test_a_model_of_another_size_is_refused_by_client() -> None:
    with pytest.raises(ValueError, match=r"client 4 sent \(3,\) weights for a model of \(2,\)"):
        aggregate(SAMPLES, [report(4, [1, 1, 1])])


finite = st.floats(-1e6, 1e6, width=32)
Updates = list[tuple[list[float], int]]
updates = st.lists(
    st.tuples(st.lists(finite, min_size=2, max_size=2), st.integers(1, 10**6)),
    min_size=1,
    max_size=12,
)


def test_the_order_of_arrival_does_not_show_in_a_single_bit() -> None:
    """Added as they come, 1e30 + 1 - 1e30 is 0 and 1e30 - 1e30 + 1 is 1."""
    reports = [report(0, [1e30, 1.0]), report(1, [1.0, -1e30]), report(2, [-1e30, 1e30])]

    means = {aggregate(UNIFORM, arrived).tobytes() for arrived in permutations(reports)}

    assert len(means) == 1


@pytest.mark.slow
@given(updates, st.integers(2, 1000))
def test_only_proportions_of_samples_matter(values: Updates, factor: int) -> None:
    few = [report(client, vector, n) for client, (vector, n) in enumerate(values)]
    many = [report(client, vector, n * factor) for client, (vector, n) in enumerate(values)]

    np.testing.assert_allclose(aggregate(SAMPLES, many), aggregate(SAMPLES, few), rtol=1e-6)


@given(updates)
def test_the_mean_lies_between_the_models(values: Updates) -> None:
    vectors = np.array([vector for vector, _ in values], dtype=np.float32)
    mean = aggregate(SAMPLES, [report(client, v, n) for client, (v, n) in enumerate(values)])

    assert (mean >= vectors.min(axis=0)).all()
    assert (mean <= vectors.max(axis=0)).all()


def test_small_terms_survive_beside_large_ones() -> None:
    """In float32 1e8 + 1 is 1e8; the sum 1e8 + 1 - 1e8 must still be 1."""
    reports = [report(0, [1e8, 0]), report(1, [1, 0]), report(2, [-1e8, 0])]

    assert aggregate(UNIFORM, reports)[0] == np.float32(1 / 3)


def test_a_model_of_many_blocks_is_summed_like_one_of_few() -> None:
    """The mean is taken block by block; every weight must be in exactly one."""
    vectors = rng.stream(3, "vectors").standard_normal((3, 100_001)).astype(np.float32)
    reports = [report(client, vector, client + 1) for client, vector in enumerate(vectors)]
    plain = np.array([1.0, 2.0, 3.0]) @ vectors.astype(np.float64) / 6.0

    mean = SAMPLES.build().aggregate(np.zeros(100_001, dtype=np.float32), reports)

    np.testing.assert_allclose(mean, plain, rtol=1e-6)


def test_the_last_weight_of_many_blocks_is_checked_too() -> None:
    vector = np.zeros(100_001, dtype=np.float32)
    vector[-1] = np.nan

    with pytest.raises(ValueError, match="client 7 sent 1 weights of 100001"):
        SAMPLES.build().aggregate(np.zeros_like(vector), [report(7, vector)])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("{kind: fedadm, learning_rate: 0.1}", "did you mean 'fedadam'"),
        ("{kind: fedadam}", r"aggregator\.learning_rate: missing"),
        ("{kind: fedavg, momentum: 0.9}", r"aggregator\.momentum = 0\.9: unknown key"),
        ("{kind: fedavgm, momentum: 1}", "must be a number >= 0 and < 1"),
        ("{weights: uniform}", r"aggregator\.kind: missing"),
    ],
)
def test_a_wrong_aggregator_is_said_with_the_way_out(change: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        scenario.load("quickstart", [f"server.aggregator={change}"])
