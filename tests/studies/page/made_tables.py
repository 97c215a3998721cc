"""Made-up tables of a study: addressed draws, censored costs, a failed run, hostile names."""

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fleetsim import rng
from fleetsim.report.markup import Table
from fleetsim.report.pages.setup import SetupBlock
from fleetsim.studies import evidence
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables

SCRIPT_NAME = "<script>alert(1)</script>"
ARMS = ("random", "oort", "power-of-choice, d = 40, with a very long name", SCRIPT_NAME)
LEVELS = ("60", "600")
CONDITIONS = tuple(f"deadline_s={level}" for level in LEVELS)
TARGETS = ("60 %", "80 %")
ACCURACIES = (0.6, 0.8)
SEEDS = (1, 2, 3, 4, 5)
FAILED = (CONDITIONS[1], "oort", 3)
REASON = "CUDA & friends: <b>out of memory</b>"

_PACE = {"random": 1.0, "oort": 0.75, ARMS[2]: 0.95, SCRIPT_NAME: 1.6}


def made_header(
    *, arms: tuple[str, ...] = ARMS, seeds: tuple[int, ...] = SEEDS, varied: bool = True
) -> StudyHeader:
    """Return a plan whose baseline is the first arm."""
    return StudyHeader(
        name="phones-deadlines",
        question="Which selector reaches 80 % with the least energy, and does the deadline matter?",
        arms=arms,
        baseline=arms[0],
        seeds=seeds,
        targets=TARGETS,
        target_accuracies=ACCURACIES,
        factors={"deadline_s": LEVELS} if varied else {},
        conditions=CONDITIONS if varied else ("",),
        setup=SetupBlock(
            {"deadline": ["60 s", "600 s"]},
            {"Overrides": Table(("runs", "overrides"), [(SCRIPT_NAME, f"a: {REASON}")])},
            {"The study file": f"</pre>{SCRIPT_NAME}"},
            "study.yaml",
        ),
        notes=("Device figures are drawn anew for each seed (inferred 30 %, measured 5 %).",),
    )


def made_tables(
    header: StudyHeader, *, folder: Path = Path("/studies/phones/runs"), num_rounds: int = 60
) -> StudyTables:
    runs: list[dict[str, Any]] = []
    costs: list[dict[str, Any]] = []
    curves: list[pd.DataFrame] = []
    ledgers: list[dict[str, Any]] = []
    for (number, condition), arm, seed in product(
        enumerate(header.conditions), header.arms, header.seeds
    ):
        place = {"condition": condition, "arm": arm, "seed": seed}
        factors = {key: levels[number] for key, levels in header.factors.items()}
        is_failed = (condition, arm, seed) == FAILED
        draws = rng.stream(1, "made study", number, header.arms.index(arm), seed)
        noise = math.exp(0.16 * draws.standard_normal())
        round_s = (60.0, 240.0)[number] * noise
        round_j = (520.0, 330.0)[number] * noise * math.exp(0.1 * draws.standard_normal())
        rounds = np.arange(1, num_rounds + 1)
        pace = num_rounds * 0.25 * _PACE.get(arm, 1.0) * noise
        accuracy = (
            0.1 + 0.78 * (1 - np.exp(-rounds / pace)) + 0.01 * draws.standard_normal(num_rounds)
        )
        accuracy = np.clip(accuracy, 0.0, 1.0)
        run_folder = str(folder / f"{number}{header.arms.index(arm)}{seed}")
        ending = {"status": "done", "folder": run_folder, "reason": None}
        if is_failed:
            ending = {"status": "failed", "folder": None, "reason": REASON}
        runs.append(
            {**place, **factors, **ending, "rounds": num_rounds, "virtual_s": num_rounds * round_s,
             "energy_j": num_rounds * round_j, "final_accuracy": float(accuracy[-1]),
             "platform": "avx2" if seed < 5 else "avx512"}
        )  # fmt: skip
        if is_failed:
            continue
        columns = {"round": rounds, "time_s": rounds * round_s, "energy_j": rounds * round_j}
        curves.append(pd.DataFrame({**place, **columns, "accuracy": accuracy}))
        for target, level in zip(TARGETS, ACCURACIES, strict=True):
            is_reached = bool((accuracy >= level).any())
            taken = int(np.argmax(accuracy >= level)) + 1 if is_reached else num_rounds
            for metric, each in (("rounds", 1.0), ("seconds", round_s), ("joules", round_j)):
                costs.append(
                    {**place, "target": target, "metric": metric, "cost": taken * each,
                     "is_reached": is_reached}
                )  # fmt: skip
            for component, share in (("compute", 0.6), ("transmit", 0.25), ("idle", 0.15)):
                for outcome, part in (("used", 0.8), ("late", 0.2)):
                    ledgers.append(
                        {**place, "target": target, "component": component,
                         "energy_outcome": outcome, "energy_j": taken * round_j * share * part}
                    )  # fmt: skip
    frame = pd.DataFrame(costs)
    return StudyTables(
        runs=pd.DataFrame(runs),
        costs=frame,
        curves=pd.concat(curves, ignore_index=True),
        ledgers=pd.DataFrame(ledgers),
        summaries=evidence.summaries(frame, header.arms),
        verdicts=evidence.verdicts(frame, header.arms, header.baseline),
    )
