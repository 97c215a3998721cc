"""Evidence of a study: summaries of costs, verdicts on arms, and differences of accuracies.

The methods are in `fleetsim.studies.statistics`. Arms are compared with the baseline by the seeds
that both have completed. In a sweep, a study of one arm, the levels take the place of the arms.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleetsim.studies.settings import EQUIVALENCE_MARGIN
from fleetsim.studies.statistics.comparison import Comparison, compare
from fleetsim.studies.statistics.shares import survival_sentence, survival_share
from fleetsim.studies.statistics.summary import Summary, summarise
from fleetsim.studies.statistics.t_test import t_interval, t_test
from fleetsim.studies.statistics.verdict import Verdict, decide, holm

_FAMILY = ["condition", "target", "metric"]
_SUMMARY_COLUMNS = [*_FAMILY, "arm", *Summary.__dataclass_fields__]
VERDICT_COLUMNS = [
    *(*_FAMILY, "arm", "baseline"),
    *Comparison.__dataclass_fields__,
    *("win_share", "win_low", "win_high", "p_holm", "p_equal", "equal_within", "kind"),
    "sentence",
]


class Difference(NamedTuple):
    """Difference of the mean accuracies of an arm and the baseline, by one measure."""

    baseline: str
    """Arm, or level of a sweep, with which it is compared."""
    num_pairs: int
    """Seeds that both have completed."""
    difference: float
    """Mean accuracy of the arm minus that of the baseline, paired by seed."""
    low: float
    """Lower end of its 95 % interval by Student's t."""
    high: float
    """Upper end of the same interval."""
    p_t: float
    """p-value of the paired t-test of the accuracies."""
    p_holm: float
    """The same, adjusted over the arms by Holm's method."""


def summaries(costs: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Return a row per condition, target, metric and arm, from the table of costs."""
    rows = []
    for family, group in _families(costs):
        for arm in arms:
            of_arm = group[group["arm"] == arm]
            if len(of_arm):
                summary = summarise(of_arm["cost"].to_numpy(), of_arm["is_reached"].to_numpy())
                rows.append({**family, "arm": arm, **asdict(summary)})
    return pd.DataFrame(rows, columns=_SUMMARY_COLUMNS)


def by_level(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of a sweep with its conditions, the levels, as arms of one condition."""
    return frame.assign(arm=frame["condition"], condition="")


def verdicts(
    costs: pd.DataFrame,
    arms: Sequence[str],
    baseline: str | None,
    *,
    margin: float = EQUIVALENCE_MARGIN,
    doubtful: Collection[str] = (),
) -> pd.DataFrame:
    """Return a row per condition, target, metric and arm but the baseline.

    Without a baseline the others are compared with the best arm of each condition, target and
    metric: of those that most seeds reached the target with, the one of the least geometric mean
    cost. In the conditions `doubtful` every seed is another plausible fleet, and the sentence says
    in how many of them the arm costs less.
    """
    rows: list[dict[str, Any]] = []
    for family, group in _families(costs):
        reference = _best(group) if baseline is None else baseline
        for verdict in decide(
            _comparisons(group, arms, reference),
            baseline=reference,
            metric=family["metric"],
            target=family["target"],
            margin=margin,
            is_best=baseline is None,
        ):
            rows.append(family | _verdict_row(verdict, is_doubtful=family["condition"] in doubtful))
    return pd.DataFrame(rows, columns=VERDICT_COLUMNS)


def differences(accuracies: pd.DataFrame, arms: Sequence[str], baseline: str) -> pd.DataFrame:
    """Return a row per condition, measure and arm but the baseline: difference of means."""
    rows = []
    for (condition, measure), group in accuracies.groupby(["condition", "measure"], sort=False):
        wide = group.pivot(index="seed", columns="arm", values="accuracy")
        family: dict[str, Difference] = {}
        for arm in arms:
            if arm == baseline or not {arm, baseline} <= set(wide.columns):
                continue
            both = wide[[arm, baseline]].dropna()
            difference = (both[arm] - both[baseline]).to_numpy(dtype=np.float64)
            if not difference.size:
                continue
            low, high = map(float, t_interval(difference))
            p_t = float(t_test(difference))
            mean = float(difference.mean())
            family[arm] = Difference(baseline, difference.size, mean, low, high, p_t, p_holm=p_t)
        adjusted = holm(np.array([row.p_t for row in family.values()]))
        rows += [
            (condition, measure, arm, *row._replace(p_holm=p))
            for (arm, row), p in zip(family.items(), adjusted.tolist(), strict=True)
        ]
    return pd.DataFrame(rows, columns=["condition", "measure", "arm", *Difference._fields])


def _families(costs: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Yield costs of the same condition, target and metric; metrics that cost nothing not."""
    for keys, group in costs.groupby(_FAMILY, sort=False):
        if (group["cost"] > 0.0).all():
            yield dict(zip(_FAMILY, map(str, keys), strict=True)), group


def _best(costs: pd.DataFrame) -> str:
    by_arm = costs.assign(log_cost=np.log(costs["cost"])).groupby("arm", sort=False)
    ranks = by_arm.agg(num_reached=("is_reached", "sum"), log_cost=("log_cost", "mean"))
    ranked = ranks.sort_values(["num_reached", "log_cost"], ascending=[False, True], kind="stable")
    return str(ranked.index[0])


def _comparisons(costs: pd.DataFrame, arms: Sequence[str], baseline: str) -> dict[str, Comparison]:
    base = costs[costs["arm"] == baseline]
    pairs = {
        arm: both
        for arm in arms
        if arm != baseline
        and len(both := costs[costs["arm"] == arm].merge(base, on="seed", suffixes=("", "_of")))
    }
    columns = ("cost", "is_reached", "cost_of", "is_reached_of")
    return {
        arm: compare(
            *(both[column].to_numpy() for column in columns),
            seed=int(both["seed"].min()),
            num_arms=len(pairs),
        )
        for arm, both in pairs.items()
    }


def _verdict_row(verdict: Verdict, *, is_doubtful: bool) -> dict[str, Any]:
    comparison = verdict.comparison
    share = survival_share(comparison.num_wins, comparison.num_pairs)
    sentence = verdict.sentence
    if is_doubtful and comparison.num_pairs > 1:
        sentence += f" {survival_sentence(verdict.arm, verdict.baseline, share)}"
    names = ("arm", "baseline", "p_holm", "p_equal", "equal_within", "kind")
    return {
        **{name: getattr(verdict, name) for name in names},
        **asdict(comparison),
        **{f"win_{name}": getattr(share, name) for name in ("share", "low", "high")},
        "sentence": sentence,
    }
