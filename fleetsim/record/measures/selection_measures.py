"""Measures of papers on client selection, besides time- and energy-to-accuracy.

They are pure functions of columns of the rounds and tasks tables. Docstrings state the choices that
a paper leaves open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from fleetsim.contracts import FloatArray, IntArray, Outcome
from fleetsim.counts import ceil_product
from fleetsim.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "selector_diagnostics"
_NUMBERS: TypeAdapter[dict[str, float | list[float]]] = TypeAdapter(
    dict[str, FiniteFloat | list[FiniteFloat]]
)


class Ending(NamedTuple):
    """Accuracy at the end of a run."""

    mean: float
    """Mean over the last rounds."""
    largest_deviation: float
    """Largest deviation of one of them from that mean, up or down."""


def ending(accuracy: FloatArray, num_rounds: int = 10) -> Ending | None:
    """Return mean and largest deviation of accuracy [R] over the last rounds.

    Rounds among them that were not evaluated (NaN) are left out; None if none was.

    Source: "GPFL: gradient projection-based client selection", Table II (10 rounds).

    >>> ending(np.array([0.1, 0.5, np.nan, 1.0]), 3)
    Ending(mean=0.75, largest_deviation=0.25)
    """
    if num_rounds < 1:
        raise ValueError(f"num_rounds must be at least 1, got {num_rounds}")
    last = accuracy[-num_rounds:]
    last = last[~np.isnan(last)]
    if last.size == 0:
        return None
    mean = float(last.mean())
    return Ending(mean, float(np.abs(last - mean).max()))


def accuracy_at(accuracy: FloatArray, fraction: float, horizon_rounds: int) -> float | None:
    """Return the accuracy of the model after a share of the planned rounds.

    The share ends with round ceil(fraction * horizon). The last model evaluated up to then counts;
    accuracy is NaN where not evaluated [R]. None if there are fewer rounds, or none was evaluated.

    Source: "GPFL: gradient projection-based client selection", Table II (15 and 50 % of 500 or
    2000 rounds).

    >>> accuracy_at(np.array([0.1, 0.5, np.nan, 0.7]), 0.5, 6)
    0.5
    """
    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"fraction must be above 0 and at most 1, got {fraction}")
    if horizon_rounds < 1:
        raise ValueError(f"horizon_rounds must be at least 1, got {horizon_rounds}")
    num_rounds = max(1, ceil_product(fraction, horizon_rounds))
    if num_rounds > accuracy.size:
        return None
    evaluated = accuracy[:num_rounds]
    evaluated = evaluated[~np.isnan(evaluated)]
    return float(evaluated[-1]) if evaluated.size else None


def waiting_s(rounds: IntArray, duration_s: FloatArray) -> FloatArray:
    """Return seconds that the fastest client of every round waited for the slowest.

    There is one value per round with two delivered tasks or more, in the order of the rounds. The
    average waiting time is their mean. Both arguments are of every delivered train task [T].
    Durations of the whole task give the `waiting_s` of the rounds table; the paper's text speaks of
    the computing times.

    Source: "Optimization of federated learning's client selection for non-IID data based on grey
    relational analysis" (FedGRA), section VI-B.

    >>> waiting_s(np.array([1, 2, 1, 3, 3, 1]), np.array([4.0, 9.0, 7.0, 1.0, 1.0, 5.0])).tolist()
    [3.0, 0.0]
    """
    is_bad = ~(duration_s >= 0.0)
    if np.any(is_bad):
        raise ValueError(f"durations must be 0 or more, got {duration_s[is_bad][0]}")
    numbers, row = np.unique(rounds, return_inverse=True)
    slowest = np.full(numbers.size, -np.inf)
    fastest = np.full(numbers.size, np.inf)
    np.maximum.at(slowest, row, duration_s)
    np.minimum.at(fastest, row, duration_s)
    has_two = np.bincount(row, minlength=numbers.size) >= 2
    waited: FloatArray = (slowest - fastest)[has_two]
    return waited


def share_seen(
    rounds: IntArray, clients: IntArray, num_rounds: int, num_clients: int
) -> FloatArray:
    """Return the share of N clients that were selected at least once, up to each round [R].

    `rounds`, from 1, and `clients` are of every train task [T].

    Source: "GPFL: gradient projection-based client selection", Figure 4.

    >>> share_seen(np.array([1, 1, 3]), np.array([0, 3, 2]), 3, 4).tolist()
    [0.5, 0.5, 0.75]
    """
    if num_clients < 1:
        raise ValueError(f"num_clients must be at least 1, got {num_clients}")
    for name, values, low, high in (
        ("round", rounds, 1, num_rounds),
        ("client", clients, 0, num_clients - 1),
    ):
        is_bad = (values < low) | (values > high)
        if np.any(is_bad):
            raise ValueError(f"a {name} must be {low} to {high}, got {values[is_bad][0]}")
    first = np.full(num_clients, num_rounds + 1)
    np.minimum.at(first, clients, rounds)
    new = np.bincount(first, minlength=num_rounds + 2)[1 : num_rounds + 1]
    return np.cumsum(new) / num_clients


def rounds_to_share(shares: FloatArray, target: float = 1.0) -> int | None:
    """Return the first round, from 1, that reached a share; None if there is none.

    >>> rounds_to_share(np.array([0.5, 0.5, 0.75]), 0.6), rounds_to_share(np.array([0.5]))
    (3, None)
    """
    reached = np.flatnonzero(shares >= target)
    return int(reached[0]) + 1 if reached.size else None


def at_slot_ends(values: FloatArray, slot_rounds: int) -> FloatArray:
    """Return the values of the rounds that end slots; an incomplete last slot does not count.

    >>> at_slot_ends(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2).tolist()
    [2.0, 4.0]
    """
    if slot_rounds < 1:
        raise ValueError(f"slot_rounds must be at least 1, got {slot_rounds}")
    return values[slot_rounds - 1 :: slot_rounds]


def regret(rewards: FloatArray, best_rewards: FloatArray | float) -> FloatArray:
    """Return Reg(t) = sum over slots up to t of (best reward - reward), for t = 1 ... T [T].

    The best set is fixed, but its reward may change from slot to slot as its model improves. Give
    the rewards of a run with `fixed` clients and the same seed, or one number for a bandit with
    constant expected rewards. A reward is the mean accuracy over all clients in a slot; slots in
    which a run was not evaluated (NaN) count 0.

    Source: "From learning to analytics: improving model efficacy with goal-directed client
    selection", equation (12).

    >>> regret(np.array([0.25, 0.5, 0.75]), 0.75).tolist()
    [0.5, 0.75, 0.75]
    """
    best = np.asarray(best_rewards, dtype=np.float64)
    if best.shape not in ((), rewards.shape):
        raise ValueError(f"{rewards.size} slots but {best.size} of the best set")
    lost = best - rewards
    return np.cumsum(np.where(np.isnan(lost), 0.0, lost))


def opinions(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return opinions of clients of the global model, and their beliefs, of a tasks table.

    Bandits over clients let all clients evaluate the model after a slot. The accuracy is the
    client's opinion r_n, and the mean of all is the reward of the slot (FL&FA). With BP-UCB clients
    then exchange messages, which gives each a belief b_n(1) in its own worth (FL&DA), NaN where
    there is none. The opinion is a column of the task that evaluated, the belief of the one that
    exchanged messages.

    The frame has round, client, opinion and belief, a row per client and model, ordered by round
    and client; `round` is that of the evaluated model, the last before that of the tasks.

    Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed
    client selection", equations (3), (4) and (8), Figures 7 to 9.
    """
    answers = {
        name: tasks.loc[tasks[name].notna(), ["round", "client", name]]
        if name in tasks
        else tasks.loc[:, ["round", "client"]].iloc[:0].assign(**{name: np.float64()})
        for name in ("opinion", "belief")
    }
    joined = answers["opinion"].merge(answers["belief"], on=["round", "client"], how="left")
    joined["round"] -= 1
    return joined.sort_values(["round", "client"], ignore_index=True)[
        ["round", "client", "opinion", "belief"]
    ]


def comprehensive_score(
    performance: FloatArray,
    latency_s: FloatArray,
    energy_j: FloatArray,
    *,
    budget_s: float,
    budget_j: float,
    latency_penalty: float = 2.0,
    energy_penalty: float = 2.0,
) -> FloatArray:
    """Return the score of every selection by accuracy, time and energy together [n].

        p = p_perf * (L / p_L)^(a [L < p_L]) * (E / p_E)^(b [E < p_E])

    Within the budgets L and E the score is the performance. Beyond a budget it is reduced by a
    power of the ratio. The score is defined for a selection: of a round, or of a run for the policy
    that made its selections, each with its own budgets. They are the user's; the paper gives none.

    Performance is p_perf, such as an accuracy, larger is better; seconds and joules are totals, all
    [n]. The penalties are the exponents a and b.

    Source: Ning et al., "FedGCS: a generative framework for efficient client selection in federated
    learning via gradient-based optimization", IJCAI 2024, equation (1), a = b = 2.

    Within both budgets; twice the time; twice the time and ten times the energy:

    >>> perf, spent_s, spent_j = np.full(3, 0.8), np.array([5., 20., 20.]), np.array([1., 1., 100.])
    >>> comprehensive_score(perf, spent_s, spent_j, budget_s=10.0, budget_j=10.0).round(6).tolist()
    [0.8, 0.2, 0.002]
    """
    for name, budget in (("budget_s", budget_s), ("budget_j", budget_j)):
        if not budget > 0.0:
            raise ValueError(f"{name} must be above 0, got {budget}")
    # Within the budget the ratio is 1, for any exponent.
    over_s = np.maximum(latency_s, budget_s)
    over_j = np.maximum(energy_j, budget_j)
    return (
        performance * (budget_s / over_s) ** latency_penalty * (budget_j / over_j) ** energy_penalty
    )


def diagnostics(rounds: pd.DataFrame, *, run: str) -> pd.DataFrame:
    """Return round, name, step and value of each number, ordered by these; `run` names the folder.

    The step is the position in a list, 0 for a number alone.
    """
    import pandas as pd  # noqa: PLC0415

    entries = rounds.loc[rounds[COLUMN].notna(), ["round", COLUMN]] if COLUMN in rounds else None
    rows = [
        (round_, name, step, value)
        for round_, text in (() if entries is None else entries.itertuples(index=False))
        for name, step, value in _numbers(text, f"{run}: rounds table, {COLUMN} of round {round_}")
    ]
    frame = pd.DataFrame(rows, columns=["round", "name", "step", "value"])
    return frame.astype({"round": "int64", "name": "str", "step": "int64", "value": "float64"})


def _numbers(text: str, place: str) -> list[tuple[str, int, float]]:
    """Return name, step and value of each number in a text, ordered by name."""
    try:
        numbers = _NUMBERS.validate_json(text, strict=True)
    except ValidationError:
        raise DataError(
            f"{place}: is no JSON object of finite numbers and lists of them; restore the file, or"
            " run the scenario again"
        ) from None
    return [
        (name, step, each)
        for name, value in sorted(numbers.items())
        for step, each in enumerate(value if isinstance(value, list) else [value])
    ]


def first_other_round(one: pd.DataFrame, other: pd.DataFrame, num_rounds: int) -> int | None:
    """Return the first round in which not the same clients train and deliver in tasks of two runs.

    None: there is none up to `num_rounds`.
    """
    columns = ["round", "client", "purpose", "outcome"]
    mine, theirs = (
        set(
            tasks[columns]
            .assign(outcome=tasks["outcome"] == Outcome.DELIVERED)
            .itertuples(index=False, name=None)
        )
        for tasks in (one, other)
    )
    return min((row[0] for row in mine ^ theirs if row[0] <= num_rounds), default=None)
