import numpy as np
import pytest

from fleetsim.studies.statistics.comparison import Comparison, compare
from fleetsim.studies.statistics.verdict import decide

COSTS = np.array([6.0, 8.0, 10.0, 12.0, 14.0])
ALL, NONE, BUT_ONE = np.ones(5, dtype=bool), np.zeros(5, dtype=bool), np.arange(5) < 4

# Log-ratios by their mean and pattern; the pattern has mean 0 and standard deviation 1, so that
# intervals are mean +- 2.7764 std / sqrt(5) = mean +- 1.2417 std (t of 4 degrees of freedom).
PATTERN = np.array([-1.0, -1.0, 0.0, 1.0, 1.0])


def verdict(arm, arm_reached, base=COSTS, base_reached=ALL, metric="joules"):
    comparison = compare(arm, arm_reached, base, base_reached, seed=1)
    (only,) = decide({"oort": comparison}, baseline="random", metric=metric, target="80 %")
    return only


def spread(mean: float, std: float):
    return COSTS * np.exp(mean + std * PATTERN)


@pytest.mark.parametrize(
    ("mean", "std", "kind", "ratio", "decision"),
    [
        # exp(-0.174) = 0.84, exp(-0.174 -+ 0.317) = 0.61, 1.15. Effect 0.174 / 0.255 = 0.68: 19
        # seeds by tables of the t-test (18.9 by the normal limit (1.96 + 0.84)^2 / 0.68^2 + 1.96).
        (-0.174, 0.255, "undecided", "0.84 [0.61, 1.15] of", "19 seeds"),
        # t = 0.36 sqrt(5) / 0.2 = 4.025; with 4 degrees of freedom
        # p = 1 - sin a (1 + cos^2 a / 2), tan a = t / 2: sin a = 0.8955, cos^2 a = 0.1980: 0.0158.
        (-0.36, 0.2, "less", "0.70 [0.54, 0.89] of", "(p = 0.016)"),
        (0.36, 0.2, "more", "1.43 [1.12, 1.84] times", "(p = 0.016)"),
        # Effect 0.05: about (2.8 / 0.05)^2 = 3,136 seeds.
        (*(0.01, 0.2, "undecided", "1.01 [0.79, 1.29] times"), "more than 1,000 seeds"),
        # Effect 0.15: (2.8 / 0.15)^2 = 348.9, + 2: 351, rounded up to two digits.
        (0.03, 0.2, "undecided", "1.03 [0.80, 1.32] times", "360 seeds"),
        # A narrow interval close to 1 keeps a digit of its width, 0.0025; t = 2.24 / 0.1.
        (-0.01, 0.001, "less", "0.990 [0.989, 0.991] of", "(p < 0.001)"),
        # exp(-3) = 0.0498; from 10 on no decimals: exp(3) = 20.1, interval exp(3 -+ 0.248).
        (-3.0, 0.2, "less", "0.050 [0.039, 0.064] of", "(p < 0.001)"),
        (3.0, 0.2, "more", "20 [16, 26] times", "(p < 0.001)"),
    ],
)
def test_sentences_of_runs_that_all_reached_the_target(mean, std, kind, ratio, decision):
    result = verdict(spread(mean, std), ALL)
    begins = {
        "less": "significantly fewer than random ",
        "more": "significantly more than random ",
        "undecided": "not significantly different from random; power analysis: ",
    }

    assert (result.kind, result.sentence) == (
        kind,
        f"oort needs {ratio} random's joules to 80 % (5 of 5 seeds reached it): "
        f"{begins[kind]}{decision}.",
    )


def test_two_seeds_that_differ_much_have_a_wide_interval():
    # exp(3.454) = 31.6, exp(3.454 -+ 43.9) beyond 1e-17 and 1e20.
    reached = np.ones(2, dtype=bool)
    wide = verdict(np.array([1.0, 1e3]), reached, np.ones(2), reached)
    # Ln of the upper end, ln(1e60) / 2 * 13.7 = 947, is that of no floating-point number.
    wider = verdict(np.array([1.0, 1e60]), reached, np.ones(2), reached)

    assert "needs 32 [0.00, over 1,000,000] times random's joules" in wide.sentence
    assert wider.comparison.high == np.inf


EARLY = "but its runs ended early; joules cannot be compared, longer runs would tell."


@pytest.mark.parametrize(
    ("arm", "arm_reached", "base_reached", "kind", "sentence"),
    [
        (COSTS, ALL, ALL, "undecided",
         "oort needs the same joules as random to 80 % (5 of 5 seeds reached it): "
         "no difference was seen."),
        (COSTS / 2.0, ALL, ALL, "undecided",
         "oort needs exactly 0.50 of random's joules to 80 % (5 of 5 seeds reached it): "
         "not significantly different from random; power analysis: 6 such seeds."),
        # Four log-ratios of -ln 2, and in the last pair ln(20 / 14) until oort ended:
        # mean -0.4832, std 0.4695: exp(-0.4832 -+ 0.5830) = 0.344, 1.1049.
        (np.array([3.0, 4.0, 5.0, 6.0, 20.0]), BUT_ONE, ALL, "undecided",
         "oort needs 0.62 [0.34, 1.10] of random's joules to 80 %, or until a run without it "
         "ended (4 of 5 seeds; random: 5): not significantly different from random; power "
         "analysis: 10 seeds."),
        (spread(0.36, 0.2), NONE, ALL, "more",
         "oort never reached 80 % (0 of 5 seeds; random: 5); by the end of its runs it used "
         "1.43 [1.12, 1.84] times random's joules: significantly more than random (p = 0.016)."),
        (spread(-0.36, 0.2), ALL, NONE, "less",
         "oort reached 80 % (5 of 5 seeds), random never did; by the end of random's runs oort "
         "used 0.70 [0.54, 0.89] of random's joules: significantly fewer than random (p = 0.016)."),
        (COSTS / 2.0, NONE, ALL, "undecided",
         f"oort never reached 80 % (0 of 5 seeds; random: 5), {EARLY}"),
        (COSTS * 2.0, ALL, NONE, "undecided",
         f"oort reached 80 % (5 of 5 seeds), random never did, {EARLY}"),
        (np.where(BUT_ONE, COSTS / 2.0, COSTS * 2.0), ~BUT_ONE, BUT_ONE, "undecided",
         "oort and random never reached 80 % in the same world (1 of 5 seeds; random: 4); "
         "joules cannot be compared, longer runs would tell."),
        (COSTS / 2.0, NONE, NONE, "undecided",
         "neither oort nor random reached 80 % in any of 5 seeds: nothing to compare."),
    ],
)  # fmt: skip
def test_sentences_of_runs_without_spread_or_without_the_target(
    arm, arm_reached, base_reached, kind, sentence
):
    result = verdict(arm, arm_reached, COSTS, base_reached)

    assert (result.kind, result.sentence) == (kind, sentence)


def test_six_seeds_without_spread_decide():
    reached = np.ones(6, dtype=bool)
    result = verdict(np.ones(6), reached, np.full(6, 2.0), reached, metric="grams")

    assert (result.kind, result.sentence) == (
        "less",
        "oort needs exactly 0.50 of random's grams of CO2e to 80 % (6 of 6 seeds reached it): "
        "significantly fewer than random (p = 0.031).",
    )


@pytest.mark.parametrize(
    ("arm_reached", "base_reached", "sentence"),
    [
        (True, True, "oort needs 0.67 of random's joules to 80 %; one seed: no evidence."),
        (False, True, "oort never reached 80 %, random did; one seed: no evidence."),
        (True, False, "oort reached 80 %, random never did; one seed: no evidence."),
        (False, False, "neither oort nor random reached 80 %; one seed: no evidence."),
    ],
)
def test_one_seed_is_no_evidence(arm_reached, base_reached, sentence):
    result = verdict(
        np.array([4.0]), np.array([arm_reached]), np.array([6.0]), np.array([base_reached])
    )

    assert (result.kind, result.sentence) == ("one seed", sentence)


def comparison_of(arm) -> Comparison:
    return compare(arm, ALL, COSTS, ALL, seed=1, num_arms=3)


def test_arms_share_the_false_verdicts():
    # p = 0.016 alone; of three arms the least is tripled, and the others are not less.
    arms = {name: comparison_of(spread(-0.36, 0.2)) for name in ("oort", "tifl", "fedcor")}
    verdicts = decide(arms, baseline="random", metric="joules", target="80 %")

    assert [result.arm for result in verdicts] == ["oort", "tifl", "fedcor"]
    assert [result.p_holm for result in verdicts] == pytest.approx([3 * 0.0158] * 3, abs=3e-4)
    assert {result.kind for result in verdicts} == {"less"}
    assert verdicts[0].comparison is arms["oort"]


def test_an_arm_without_a_p_value_takes_none_of_the_others_evidence():
    nothing = compare(COSTS / 2.0, NONE, COSTS, ALL, seed=1, num_arms=2)
    arms = {"oort": comparison_of(spread(-0.36, 0.2)), "tifl": nothing}
    oort, tifl = decide(arms, baseline="random", metric="joules", target="80 %")

    assert (oort.p_holm, oort.kind) == (oort.comparison.p_t, "less")
    assert (np.isnan(tifl.p_holm), tifl.kind) == (True, "undecided")


@pytest.mark.parametrize(
    ("num", "beginning"),
    [
        (5, "oort needs exactly 0.50 of random's joules for the whole run (5 seeds): "),
        (1, "oort needs 0.50 of random's joules for the whole run; one seed: no evidence."),
    ],
)
def test_without_targets_nothing_is_said_to_be_reached(num, beginning):
    base = COSTS[:num]
    comparison = compare(base / 2, ALL[:num], base, ALL[:num], seed=1)
    (only,) = decide(
        {"oort": comparison}, baseline="random", metric="joules", target="the whole run"
    )

    assert only.sentence.startswith(beginning)


@pytest.mark.parametrize(
    ("std", "margin", "within"),
    [
        # Mean -0.001, standard error std / sqrt(5): of 4 degrees of freedom the 95 % quantile is
        # 2.1318, so the bound of |mean| is 0.001 + 0.9534 std, to be below ln(1 + margin).
        (0.0009, 0.05, 0.002),  # 0.001858 < ln 1.002 = 0.001998
        (0.0011, 0.05, 0.005),  # 0.002049
        (0.0493, 0.05, 0.05),  # 0.04800 < ln 1.05 = 0.04879
        (0.0515, 0.05, None),  # 0.0501 > ln 1.05
        (0.0515, 0.06, 0.06),  # < ln 1.06 = 0.0583
        (0.0011, 0.001, None),
    ],
)
def test_costs_within_the_margin_are_equal(std, margin, within):
    comparison = compare(spread(-0.001, std), ALL, COSTS, ALL, seed=1)
    (result,) = decide(
        {"oort": comparison}, baseline="random", metric="joules", target="80 %", margin=margin
    )

    assert result.kind == ("undecided" if within is None else "equal")
    if within is not None:
        assert result.equal_within == within
        assert f": equal within {100 * within:g} % (two" in result.sentence


def test_equality_is_not_claimed_of_bounds_or_of_ratios_without_spread():
    close = spread(0.0, 0.001)
    for arm, arm_reached in ((close, BUT_ONE), (COSTS * 1.01, ALL), (COSTS, ALL)):
        assert verdict(arm, arm_reached).kind == "undecided"


def test_three_equal_arms_share_the_false_claims():
    # Bound 0.9534 std = 0.0477 alone; the first of three is tested at 0.05 / 3: quantile 3.19 or so
    # of 4 degrees of freedom, more than 2.1318, so none is equal.
    arms = {name: comparison_of(spread(0.0, 0.05)) for name in ("oort", "tifl", "fedcor")}
    alone = decide({"oort": arms["oort"]}, baseline="random", metric="joules", target="80 %")
    three = decide(arms, baseline="random", metric="joules", target="80 %")

    assert [result.kind for result in alone] == ["equal"]
    assert {result.kind for result in three} == {"undecided"}


def test_against_the_best_one_side_is_tested_for_each_other_arm():
    # Two-sided p = 0.0158: one side 0.0079, times four other arms 0.0316.
    arms = {name: comparison_of(spread(0.36, 0.2)) for name in ("30", "120", "600")}
    arms["60"] = comparison_of(spread(-0.36, 0.2))
    results = decide(arms, baseline="90", metric="joules", target="80 %", is_best=True)

    assert [result.p_holm for result in results[:3]] == pytest.approx([4 * 0.0079] * 3, abs=2e-4)
    assert [result.kind for result in results] == ["more", "more", "more", "undecided"]
