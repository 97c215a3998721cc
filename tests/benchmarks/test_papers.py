"""Figures by which runs are compared with papers, computed by hand on a few made-up rounds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers import page, prices, tables
from benchmarks.papers.evidence_table import evidence_table
from benchmarks.papers.experiment import RANDOM, Claim, Experiment
from benchmarks.papers.experiments import EXPERIMENTS
from benchmarks.papers.measures import MEASURES
from benchmarks.papers.outcomes import Origin, Outcome, OutcomeFile, outcome_of
from benchmarks.papers.prices import Price
from benchmarks.papers.tables import Result
from fleetsim.record.manifest import Manifest
from fleetsim.record.saved_run import Run

_MANIFEST = Manifest(
    name="made-up",
    scenario_hash="0" * 64,
    world_hash="0" * 64,
    checkpoint_every_rounds=1,
    seed=1,
    status="running",
    versions={},
    trainer="serial",
)


def made_up(
    accuracy: list[float],
    *,
    tasks: pd.DataFrame | None = None,
    seconds: float = 10.0,
    joules: float = 5.0,
    num_clients: int = 4,
) -> Run:
    """A run whose rounds take so many seconds and joules each."""
    count = np.arange(1, len(accuracy) + 1)
    run = Run(Path("nowhere"), _MANIFEST)
    run.__dict__["rounds"] = pd.DataFrame(
        {
            "round": count,
            "accuracy": accuracy,
            "finished_at_s": seconds * count,
            "energy_total_j": joules * count,
            "waiting_s": [2.0, 4.0, *[np.nan] * (len(accuracy) - 2)],
        }
    )
    run.__dict__["tasks"] = work([]) if tasks is None else tasks
    run.__dict__["scenario"] = {"fleet": {"size": num_clients}, "server": {"mode": "synchronous"}}
    return run


def outcome_with(*arguments: list[float], **named: float) -> Outcome:
    """Outcome of a run as by `made_up`, with prices of the accuracies used below."""
    return outcome_of(made_up(*arguments, **named), (0.5, 0.6, 0.7, 0.8, 0.95))  # type: ignore[arg-type]


def work(rows: list[tuple[int, int, str, float, float]]) -> pd.DataFrame:
    """Tasks by round, client, purpose, seconds and joules of computing."""
    frame = pd.DataFrame(rows, columns=["round", "client", "purpose", "compute_s", "j"])
    frame = frame.astype({"round": int, "client": int, "compute_s": float, "j": float})
    zero = dict.fromkeys(["receive", "transmit", "tail", "idle"], 0.0)
    parts = {f"energy_{name}_j": value for name, value in zero.items()}
    return frame.assign(outcome="delivered", energy_compute_j=frame["j"], **parts)


def test_measures_of_a_run_by_hand() -> None:
    accuracy = [0.0] * 5 + [0.75] * 5 + [0.86] * 10
    tasks = work(
        [
            (1, 0, "train", 3.0, 1.0),
            (1, 1, "train", 8.0, 1.0),
            (2, 2, "train", 1.0, 1.0),
            (3, 3, "probe", 1.0, 1.0),
            (4, 3, "train", 2.0, 1.0),
        ]
    )
    run = made_up(accuracy, tasks=tasks)

    values = {name: measure.of(run) for name, measure in MEASURES.items()}

    assert values["final"] == pytest.approx(0.86)
    assert values["deviation"] == pytest.approx(0.0)
    assert values["best"] == values["final_slot"] == 0.86
    assert values["mean"] == pytest.approx((5 * 0.75 + 10 * 0.86) / 20)
    assert (values["waiting_s"], values["compute_waiting_s"]) == (3.0, 5.0)
    # Client 3 is probed in round 3, but trains in round 4.
    assert values["rounds_to_all_seen"] == 4
    # The mean at round 15 holds 5 rounds of .75 and 5 of .86.
    assert values["rounds_to_80_of_10"] == 15
    # Round 6 is in the first slot of 15, round 11 too, .9 nowhere.
    assert (values["slots_to_75"], values["slots_to_85"]) == (1, 1)


def test_a_price_counts_probes_up_to_the_round_alone() -> None:
    tasks = work([(1, 0, "train", 1, 6), (2, 1, "probe", 1, 4), (3, 1, "probe", 1, 90)])
    run = made_up([0.1, 0.6, 0.7], tasks=tasks)

    assert prices.price(run, 0.5) == prices.Price(2, 20.0, 10.0, 0.4)
    assert prices.price(run, 0.8) is None


_EXPERIMENT = Experiment(
    name="x",
    label="x",
    measures=("best",),
    claims=(Claim("best", ("b", RANDOM), "most"),),
    papers={("b", "best"): ".9", (RANDOM, "best"): ".7"},
)


def test_a_claim_is_checked_seed_by_seed() -> None:
    outcomes = {
        RANDOM: [outcome_with([0.6, 0.7]), outcome_with([0.6, 0.7])],
        "b": [outcome_with([0.6, 0.9]), outcome_with([0.6, 0.65])],
    }
    row = tables.claims_table(_EXPERIMENT, outcomes).splitlines()[2]
    assert row == (
        "| best accuracy: b > random | .9 > .7 | 0.775 [0.650, 0.900], 0.700 | in 1 of 2 seeds |"
    )


_SEEDS = (1, 2, 3, 4, 5)


def test_evidence_against_the_baseline_by_hand() -> None:
    """Costs over random's are 1/4, 1/2, 1/2, 1/2 and 1; accuracies .1, .2, .2, .2 and .3 above.

    The logarithms of the ratios to base 2 have mean -1 and variance 2/4. The standard error of
    five is sqrt(.5 / 5) = .3162, Student's t(.975, 4) is 2.776, so the interval is 2 to the power
    of -1 -+ .878: .272 to .919. That of the differences is .2 -+ 2.776 sqrt(.005 / 5): .112 to
    .288.
    """
    factors, gains = (0.25, 0.5, 0.5, 0.5, 1.0), (0.1, 0.2, 0.2, 0.2, 0.3)
    outcomes = {
        RANDOM: [outcome_with([0.1, 0.6], seconds=16.0, joules=4.0) for _ in _SEEDS],
        "b": [
            outcome_with([0.1, 0.6 + gain], seconds=16.0 * factor, joules=4.0)
            for factor, gain in zip(factors, gains, strict=True)
        ],
    }
    result = Result(_EXPERIMENT, "quickstart", RANDOM, _SEEDS, [0.6, 0.95], outcomes)

    table = evidence_table(result)

    assert table is not None
    head, _, row = table.splitlines()
    assert head == (
        "| selector | accuracy after the last round, minus random's | rounds to 60 %, times "
        "random's | seconds to 60 %, times random's | joules to 60 %, times random's |"
    )
    # Rounds and joules are equal with every seed, which tells nothing apart.
    assert row == (
        "| b | **+0.200 [+0.112, +0.288]** | 1.00 [1.00, 1.00] | **0.50 [0.27, 0.92]** "
        "| 1.00 [1.00, 1.00] |"
    )
    assert evidence_table(replace(result, seeds=_SEEDS[:4])) is None


def test_a_run_without_the_accuracy_counts_with_its_costs_until_it_ended() -> None:
    outcomes = {
        RANDOM: [outcome_with([0.1, 0.6], joules=3.0) for _ in _SEEDS],
        "b": [
            *(outcome_with([0.6, 0.6], joules=6.0) for _ in _SEEDS[1:]),
            outcome_with([0.1, 0.1, 0.1, 0.1], joules=6.0),
        ],
    }
    result = Result(_EXPERIMENT, "quickstart", RANDOM, _SEEDS, [0.6], outcomes)
    # Joules are 6 over 6 with four seeds; the fifth spends 24 until its end, four times random's:
    # the geometric mean is 4 to the power of a fifth.
    row = (evidence_table(result) or "").splitlines()[2]
    assert "| 1.32 [0.61, 2.85] (reached 4, 5 of 5) |" in row


def test_an_outcome_file_returns_what_was_added(tmp_path: Path) -> None:
    tasks = work([(1, 0, "train", 1, 6), (2, 1, "probe", 1, 4)])
    run = made_up([0.1, 0.6, 0.7], tasks=tasks)
    origin = Origin("quickstart", ("a.b=1", "c={d: [0, 1]}"), 3, "f" * 64)
    outcomes = OutcomeFile(tmp_path / "figures" / "outcomes.jsonl")
    assert outcomes.find(origin.content_hash, (0.65,)) is None

    outcomes.add(replace(origin, seed=2, content_hash="e" * 64), outcome_of(run, ()))
    outcomes.add(origin, outcome_of(run, (0.65, 0.8)))

    again = OutcomeFile(outcomes.path)
    outcome = again.find(origin.content_hash, (0.65, 0.8))
    assert outcome == outcome_of(run, (0.65, 0.8))
    assert outcome.prices == {0.65: Price(3, 30.0, 15.0, 4 / 15), 0.8: None}
    assert outcome.measures["best"] == 0.7
    assert outcome.measures["rounds_to_80_of_10"] is None
    # A figure that was added since then needs the run again.
    assert again.find(origin.content_hash, (0.6,)) is None
    # Seed 2 is written before seed 3, whichever was added first.
    assert ['"seed": 2' in line for line in outcomes.path.read_text().splitlines()] == [True, False]


def test_the_pages_have_a_place_for_every_experiment() -> None:
    folder = Path(__file__).parents[2] / "docs" / "papers"
    pages = {one: one.read_text(encoding="utf-8") for one in folder.glob("*.md")}
    for experiment in EXPERIMENTS:
        target, text = page.fill(pages, experiment.name, "tables")
        assert f"<!-- begin {experiment.name} -->\ntables\n<!-- end" in text
        with pytest.raises(ValueError, match=f"begin {experiment.name}"):
            page.fill(pages | {folder / "twice.md": pages[target]}, experiment.name, "")
    with pytest.raises(ValueError, match="begin nobody"):
        page.fill(pages, "nobody", "")
