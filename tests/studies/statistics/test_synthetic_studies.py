"""Claims of docs/evidence/statistics.md on synthetic studies, whose truth is known."""

import math

import numpy as np
import pytest

from benchmarks import synthetic_studies
from benchmarks.synthetic_studies import (
    AT_THE_MARGIN,
    CHEAP_ROUNDS,
    LAWS,
    NULL_LAWS,
    Law,
    coverage,
    false_equivalences,
    false_verdicts,
)
from fleetsim import rng
from fleetsim.studies.statistics.comparison import compare
from fleetsim.studies.statistics.t_test import power_of_t_test, seeds_needed
from fleetsim.studies.statistics.verdict import decide

COMMON_END = [
    "no effect",
    "effect -30 %",
    "effect -30 %, 20 % censored",
    "effect +43 %, 20 % censored",
]


def noise(share: float, num: int) -> float:
    """Four standard errors of a share of `num` trials."""
    return 4.0 * math.sqrt(share * (1.0 - share) / num)


@pytest.mark.parametrize("name", NULL_LAWS)
def test_few_studies_without_effect_have_few_false_verdicts(name):
    assert false_verdicts(NULL_LAWS[name], 5, 400) <= 0.05 + noise(0.05, 400)


@pytest.mark.parametrize("name", [name for name in AT_THE_MARGIN if "evaluated" not in name])
def test_few_studies_at_the_margin_have_false_verdicts_of_equivalence(name):
    share = false_equivalences(AT_THE_MARGIN[name], 5, 2_000)

    assert share <= 0.05 + noise(0.05, 2_000)
    assert "0.2" in name or share > 0.02  # and the test is not blind


def test_a_test_of_each_arm_without_holm_would_have_too_many(monkeypatch):
    monkeypatch.setattr(synthetic_studies, "holm", lambda p: p)

    assert false_verdicts(Law(), 5, 400) > 0.05 + noise(0.05, 400)


def test_a_censored_law_censors_its_share():
    law = Law((0.0, -0.36), censored=0.2, end_std=0.3)
    cost, is_reached = law.draw(100_000, 1, rng.stream(1, "test"))

    assert float(np.mean(is_reached)) == pytest.approx(0.8, abs=0.01)
    assert cost.shape == (2, 100_000, 1)


def test_an_arm_whose_runs_end_cheaper_is_not_said_to_need_less():
    up_to_limits = synthetic_studies.claims_up_to_limits(CHEAP_ROUNDS, 5, 2_000)
    up_to_own_ends = synthetic_studies.claims_up_to_own_ends(CHEAP_ROUNDS, 5, 2_000)

    assert up_to_limits.less <= 0.025
    assert up_to_limits.ratio > 0.95
    assert up_to_own_ends.less > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("censored", [0.0, 0.3])
def test_the_verdicts_are_those_of_whole_arrays(censored):
    """`false_verdicts` computes with arrays what `compare` and `decide` do for one study."""
    law = Law((0.0, 0.2, -0.3, 0.5), censored=censored)
    cost, is_reached = law.draw(25, 5, rng.stream(1, "test"))
    p_holm = synthetic_studies.adjusted_p(
        synthetic_studies.log_ratios_of(cost, is_reached), num_seeds=5
    )
    for study in range(25):
        comparisons = {
            str(arm): compare(
                cost[arm, study],
                is_reached[arm, study],
                cost[0, study],
                is_reached[0, study],
                seed=1,
                num_arms=3,
            )
            for arm in (1, 2, 3)
        }
        verdicts = decide(comparisons, baseline="0", metric="joules", target="80 %")

        assert [verdict.p_holm for verdict in verdicts] == pytest.approx(p_holm[study].tolist())


def test_the_power_is_the_share_of_studies_that_decide():
    expected = power_of_t_test(0.7, 10)

    assert synthetic_studies.simulated_power(0.7, 10, 10_000) == pytest.approx(
        expected, abs=noise(expected, 10_000)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NULL_LAWS)
@pytest.mark.parametrize("num_seeds", [5, 10])
def test_studies_without_effect_have_at_most_one_false_verdict_in_twenty(name, num_seeds):
    assert false_verdicts(NULL_LAWS[name], num_seeds, 2_000) <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMON_END)
@pytest.mark.parametrize("num_seeds", [5, 10, 20])
def test_intervals_cover_95_percent(name, num_seeds):
    covered = coverage(LAWS[name], num_seeds, 20_000)

    assert covered.t == pytest.approx(0.95, abs=0.01)
    assert num_seeds > 10 or covered.bca < covered.t


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.3, 0.5, 1.0, 1.5])
def test_the_seeds_needed_are_right_and_pilots_find_them(effect):
    needed = seeds_needed(effect)
    estimates = [synthetic_studies.simulated_need(effect, 10_000)] + [
        synthetic_studies.median_estimate(effect, num, 10_000) for num in (10, 20)
    ]

    assert needed is not None
    for estimate in estimates:
        assert estimate is not None
        assert needed / 1.5 <= estimate <= needed * 1.5
