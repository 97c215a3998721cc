"""Summaries, verdicts and differences of made-up tables, by hand."""

import math

import pandas as pd
import pytest

from fleetsim.studies import evidence

CELL = {"condition": "deadline_s=60", "target": "80 %"}


def costs(metric="joules", **by_arm):
    """Return a table of costs; a negative cost was spent without reaching the target."""
    return pd.DataFrame(
        [
            {
                **CELL,
                "arm": arm.replace("_", " "),
                "seed": seed,
                "metric": metric,
                "cost": abs(cost),
                "is_reached": cost > 0.0,
            }
            for arm, values in by_arm.items()
            for seed, cost in enumerate(values, 1)
            if not math.isnan(cost)
        ]
    )


def test_every_arm_has_a_summary_in_the_order_of_the_study():
    result = evidence.summaries(costs(b=[4.0, -6.0], a=[1.0, 3.0]), ["a", "b"])

    assert (result["arm"].tolist(), result["num_reached"].tolist()) == (["a", "b"], [2, 1])
    assert result["restricted_mean"].tolist() == [2.0, 5.0]
    assert result["mean"].isna().tolist() == [False, True]


def test_arms_are_compared_by_the_seeds_that_both_have():
    table = costs(base=[10.0, 20.0, 40.0, math.nan], oort=[5.0, math.nan, 20.0, 7.0])

    row = evidence.verdicts(table, ["base", "oort"], "base").iloc[0]

    # Seeds 1 and 3: 5 / 10 and 20 / 40.
    assert (row["arm"], row["baseline"], row["num_pairs"]) == ("oort", "base", 2)
    assert row["ratio"] == pytest.approx(0.5)
    assert (row["num_wins"], row["win_share"]) == (2, 1.0)


def test_p_values_are_adjusted_over_the_arms_of_a_family():
    base = [10.0, 11.0, 9.0, 12.0, 10.0]
    table = costs(base=base, half=[5.0, 5.6, 4.4, 6.1, 5.0], same=[10.9, 10.1, 9.9, 10.9, 11.0])

    result = evidence.verdicts(table, ["base", "half", "same"], "base")

    smaller, larger = sorted(result["p_t"])
    # Holm: the smaller of two p-values is doubled, the larger is not less than that.
    assert sorted(result["p_holm"]) == pytest.approx([2 * smaller, max(2 * smaller, larger)])
    assert dict(zip(result["arm"], result["kind"], strict=True)) == {
        "half": "less",
        "same": "undecided",
    }


def test_the_best_arm_is_the_cheapest_of_those_that_most_seeds_reached_the_target_with():
    levels = {"30": [1.0, -1.0, 1.0], "60": [5.0, 4.0, 6.0], "90": [6.0, 5.0, 5.5]}
    table = evidence.by_level(
        pd.concat([costs(oort=values).assign(condition=name) for name, values in levels.items()])
    )

    result = evidence.verdicts(table, list(levels), None)

    # Geometric means 120^(1/3) = 4.93 of 60 and 165^(1/3) = 5.48 of 90.
    assert result[["arm", "baseline"]].to_numpy().tolist() == [["30", "60"], ["90", "60"]]
    assert set(result["condition"]) == {""}


def test_a_single_seed_is_no_evidence():
    result = evidence.verdicts(
        costs(base=[2.0], b=[1.0]), ["base", "b"], "base", doubtful=["deadline_s=60"]
    )

    assert result["kind"].tolist() == ["one seed"]
    assert "one seed: no evidence" in result["sentence"][0]
    assert "plausible fleets" not in result["sentence"][0]


def test_with_drawn_devices_the_sentence_says_how_often_the_ranking_survives():
    table = costs(base=[10.0, 10.0, 10.0, 10.0], oort=[9.0, 8.0, 11.0, 9.5])

    row = evidence.verdicts(table, ["base", "oort"], "base", doubtful=["deadline_s=60"]).iloc[0]

    assert row["win_share"] == 0.75
    assert "oort before base in 75 % [" in row["sentence"]
    assert row["sentence"].endswith("of 4 plausible fleets.")
    elsewhere = evidence.verdicts(table, ["base", "oort"], "base", doubtful=["deadline_s=600"])
    assert "plausible fleets" not in elsewhere["sentence"][0]


def test_a_currency_that_costs_nothing_is_left_out():
    table = pd.concat(
        [costs("joules", base=[1.0, 2.0], b=[2.0, 3.0]), costs("dollars", base=[0, 0], b=[0, 0])]
    )

    assert set(evidence.verdicts(table, ["base", "b"], "base")["metric"]) == {"joules"}
    assert set(evidence.summaries(table, ["base", "b"])["metric"]) == {"joules"}


def test_differences_of_accuracies_are_paired_by_seed():
    values = {"base": [0.70, 0.72, 0.80], "oort": [0.72, 0.73, 0.83]}
    table = pd.DataFrame(
        [
            {"condition": "", "arm": arm, "seed": seed, "measure": "final", "accuracy": value}
            for arm, of_arm in values.items()
            for seed, value in enumerate(of_arm)
        ]
    )

    row = evidence.differences(table, ["base", "oort"], "base").iloc[0]

    # Differences .02, .01, .03: mean .02, standard error .01 / sqrt(3); t(2) at 97.5 % is 4.302653.
    assert row["difference"] == pytest.approx(0.02)
    half = 4.302653 * 0.01 / math.sqrt(3.0)
    assert (row["low"], row["high"]) == pytest.approx((0.02 - half, 0.02 + half), abs=1e-6)
