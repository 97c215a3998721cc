"""Measurements of bundled scenarios and studies for the gallery, a line of docs/gallery.jsonl each.

    python -m scripts.site_pages.gallery                     # all that have no line that holds
    python -m scripts.site_pages.gallery quickstart quick    # these, however long they take
    python -m scripts.site_pages.gallery studies/papers/gpfl-fashion-mnist-dir

Without names, scenarios of more than 3 minutes of processor time are given up, and studies of more
than 10 left out; both are listed with an estimate. A line holds until its file changes. Studies of
papers are not run: their costs are those of docs/papers.jsonl (`python -m benchmarks.papers`).
Data sets are found as by `fleetsim run`.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fleetsim
from benchmarks import machine
from benchmarks.papers.outcomes import OutcomeFile
from benchmarks.papers.runs import KnownRuns
from fleetsim import bundled
from fleetsim.contracts import Progress
from fleetsim.errors import FleetsimError
from fleetsim.progress import fraction_done
from fleetsim.record import atomic_files
from fleetsim.record.identity import content_sha256
from fleetsim.schema import strict_yaml
from fleetsim.settings import DEFAULTS_VERSION
from fleetsim.studies import evidence
from fleetsim.studies.page import findings
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables
from fleetsim.studies.settings import WHOLE_RUN, Metric, StudySettings
from fleetsim.studies.study import load_study

DOCS = Path(__file__).resolve().parents[2] / "docs"
STORE, PAPERS = DOCS / "gallery.jsonl", DOCS / "papers.jsonl"
LONGEST_S = {"scenarios": 180.0, "studies": 600.0}
"""Processor time of what is measured without being named."""
TRIED_S = 20.0
"""Processor time after which that of a whole run is estimated."""
NUM_POINTS = 40
BLANK = "blank"
"""Kind of data set of scenarios that run without training."""
_NOT_DEFINING = ("question", "name")

Line = dict[str, Any]
Key = tuple[str, str]
"""Subject, `scenarios` or `studies`, and name."""


class TooLongError(Exception):
    """A run that was given up, with its estimated seconds of processor time."""


def cards() -> list[Key]:
    """Return subject and name of everything that has a card."""
    subjects: tuple[bundled.Kind, ...] = ("scenarios", "studies")
    return [(subject, name) for subject in subjects for name in bundled.names(subject)]


def content(subject: str, name: str) -> dict[str, Any]:
    """Return the content of a bundled file as it is written, without defaults."""
    kind: bundled.Kind = "studies" if subject == "studies" else "scenarios"
    data: dict[str, Any] = strict_yaml.read(bundled.folder(kind) / f"{name}.yaml").data
    return data


def definition(subject: str, name: str) -> str:
    """Return a hash of what a file, and the scenario of a study, define."""
    data = content(subject, name)
    parts = {subject: {key: data[key] for key in data if key not in _NOT_DEFINING}}
    if subject == "studies":
        parts["scenarios"] = content("scenarios", data["scenario"])
    return content_sha256({"defaults": DEFAULTS_VERSION, **parts})


def stored() -> dict[Key, Line]:
    """Return the stored lines."""
    lines = STORE.read_text("utf-8").splitlines() if STORE.exists() else []
    return {(one["subject"], one["name"]): one for one in map(json.loads, lines)}


def of_scenario(name: str, longest_s: float) -> Line:
    """Run a scenario in this process; return its costs and its curve.

    Raises:
        TooLongError: it would take more than `longest_s` of processor time.
    """
    scenario, began_s = fleetsim.load(name), _cpu_s()

    def watch(progress: Progress) -> None:
        used_s, done = _cpu_s() - began_s, fraction_done(scenario.stop, progress)
        if used_s > TRIED_S and done and used_s / done > longest_s:
            raise TooLongError(used_s / done)

    with tempfile.TemporaryDirectory() as home:
        train = scenario.task.dataset.kind != BLANK
        run = fleetsim.run(
            scenario,
            out=Path(home) / "run",
            workers=1,
            train=train,
            progress=True,
            on_progress=watch,
        )
        tasks = run.tasks[run.tasks["purpose"] == "train"]
        return {
            "digest": run.manifest.digest,
            "seeds": [scenario.seed],
            "rounds": len(run.rounds),
            "virtual_s": _rounded(run.virtual_s),
            "outcomes": tasks["outcome"].value_counts().to_dict(),
            "joules": {part: _rounded(j) for part, j in run.energy_by("component").items()},
            "curve": curve(run.rounds),
        }


def curve(rounds: pd.DataFrame) -> list[list[float | None]]:
    """Return seconds, joules and accuracy after some evaluated rounds, with the first and last.

    Rounds of a run that was never evaluated have no accuracy.
    """
    evaluated = rounds[rounds["accuracy"].notna()]
    shown = rounds if evaluated.empty else evaluated
    places = np.unique(np.linspace(0, len(shown) - 1, NUM_POINTS).round().astype(int))
    columns = ["finished_at_s", "energy_total_j", "accuracy"]
    return [[_rounded(value) for value in row] for row in shown[columns].iloc[places].to_numpy()]


def of_study(name: str, longest_s: float, known: Mapping[Key, Line]) -> Line:
    """Carry out a study; return its verdicts.

    Raises:
        TooLongError: by the stored time of its scenario it would take more than `longest_s`.
    """
    study = load_study(name)
    of_one_s = known.get(("scenarios", study.settings.scenario), {}).get("cpu_s", 0.0)
    if (needed_s := of_one_s * len(study.runs)) > longest_s:
        raise TooLongError(needed_s)
    with tempfile.TemporaryDirectory() as home:
        result = fleetsim.study(name, home=home, jobs=1, on_line=lambda line: _say(f"  {line}"))
        if (failed := result.runs[result.runs["status"] != "done"]).size:
            raise FleetsimError(f"{name}: {len(failed)} runs failed: {failed['reason'].iloc[0]}")
        digests = [fleetsim.open_run(folder).manifest.digest for folder in result.runs["folder"]]
        return {
            "digest": content_sha256({"runs": digests}),
            "seeds": list(study.settings.seeds),
            "num_runs": len(study.runs),
            **verdicts(study.settings, result.costs, result.verdicts, result.record()["arms"]),
        }


def of_papers_study(name: str) -> Line:
    """Return the verdicts of a paper's study from the lines of its runs in docs/papers.jsonl.

    Arms without lines are left out. The line has no definition if some are of other hashes.

    Raises:
        FleetsimError: there are no costs of the study.
    """
    study, rows, hashes = load_study(name), [], set()
    settings, origin = study.settings, KnownRuns(DOCS, study, OutcomeFile(PAPERS)).origin
    read = map(json.loads, PAPERS.read_text("utf-8").splitlines())
    known = {(one["experiment"], *one["changes"], one["seed"]): one for one in read}
    for run in study.runs:
        of_run = origin(run)
        if one := known.get((of_run.experiment, *of_run.changes, of_run.seed)):
            hashes.add(one["content_hash"])
            whole_j = one["measures"].get("total_j", math.nan)
            for label, accuracy in _targets_of_rounds(settings):
                price = one["prices"][accuracy] if accuracy else None
                cost_j = price["joules"] if price else whole_j
                is_reached = price is not None or accuracy is None
                rows.append(("", label, "joules", run.arm, run.seed, cost_j, is_reached))
    columns = ["condition", "target", "metric", "arm", "seed", "cost", "is_reached"]
    table = pd.DataFrame(rows, columns=columns)
    # Older lines lack the joules of runs that did not reach a target.
    table = table[~table["target"].isin(table.loc[table["cost"].isna(), "target"])]
    if table.empty:
        raise FleetsimError(f"docs/papers.jsonl: has no costs of {name}")
    arms = [arm for arm in study.arms if arm in set(table["arm"])]
    is_present = hashes == {run.scenario.definition_hash for run in study.runs}
    return {
        **({} if is_present else {"definition": None}),
        "seeds": sorted(set(table["seed"].tolist())),
        "num_runs": len(hashes),
        **verdicts(settings, table, evidence.verdicts(table, arms, settings.baseline_arm), arms),
    }


def _targets_of_rounds(settings: StudySettings) -> Iterator[tuple[str, str | None]]:
    """Yield label and accuracy of each target that is no rolling mean; else the whole run."""
    for target in settings.all_targets:
        if target.smooth_rounds == 1:
            yield target.label, str(target.accuracy)
    if not settings.all_targets:
        yield WHOLE_RUN, None


def verdicts(
    settings: StudySettings, costs: pd.DataFrame, found: pd.DataFrame, arms: Sequence[str]
) -> Line:
    """Return the answers and verdicts on the primary outcome.

    If the study declares none, that is joules to the highest target that the most arms reached
    with all seeds.
    """
    reached = costs.groupby(["target", "condition", "arm"])["is_reached"].all()
    num_arms = reached.groupby("target").sum()
    labels = [one.label for one in settings.all_targets if one.label in num_arms] or [WHOLE_RUN]
    target = max(reversed(labels), key=lambda label: int(num_arms[label]))
    metric: Metric = "joules"
    if settings.primary is not None:
        assert settings.primary.target is None, "no bundled study names one"
        target, metric = labels[-1], settings.primary.metric
    found = found[(found["target"] == target) & (found["metric"] == metric)]
    conditions = tuple(dict.fromkeys(found["condition"]))
    baseline = found["baseline"].iloc[0]
    header = StudyHeader(
        settings.name, settings.question, tuple(arms), baseline, tuple(settings.seeds), (target,),
        primary=(target, metric), conditions=conditions,
    )  # fmt: skip
    groups, _ = findings.groups(StudyTables(costs, costs, costs, costs, costs, found), header)
    numbers = ["arm", "kind", "ratio", "low", "high"]
    rows = {name: rows[numbers].to_numpy() for name, rows in found.groupby("condition")}
    return {
        "target": target,
        "metric": metric,
        "baseline": baseline,
        "groups": [
            {
                "condition": group.condition,
                "answer": group.summary,
                "verdicts": [
                    [arm, kind, *map(_rounded, values)]
                    for arm, kind, *values in rows[group.condition]
                ],
            }
            for group in groups
        ],
    }


def _rounded(value: float) -> float | None:
    """Return a number to five digits; None if it is not finite."""
    return float(f"{value:.5g}") if np.isfinite(value) else None


def _cpu_s() -> float:
    """Return the processor time of this process and of those that it has started, ended ones."""
    return sum(os.times()[:4])


def _say(line: str) -> None:
    print(line, flush=True)


def measured(key: Key, known: Mapping[Key, Line], longest_s: float) -> Line:
    """Measure one scenario or study; return its line."""
    subject, name = key
    line: Line = {"subject": subject, "name": name, "definition": definition(subject, name)}
    if subject == "studies" and name.startswith("papers/"):
        return line | of_papers_study(name)
    began_s = _cpu_s()
    if subject == "scenarios":
        line |= of_scenario(name, longest_s)
    else:
        line |= of_study(name, longest_s, known)
    return line | {
        "cpu_s": round(_cpu_s() - began_s, 1),
        "processor": machine.describe()["processor"],
        "version": fleetsim.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }


def main() -> None:
    """Measure and store what is named, or all that has no line that holds."""
    named = sys.argv[1:]
    if {"-h", "--help"} & set(named):
        print(__doc__)
        return
    # A scenario and a study may have the same name; studies/NAME is the study.
    names = {key: {key[1], "/".join(key)} for key in cards()}
    if unknown := set(named).difference(*names.values()):
        raise SystemExit(f"gallery: no bundled scenario or study: {', '.join(sorted(unknown))}")
    known = stored()
    asked = [key for key in cards() if names[key] & set(named)] or [
        key for key in cards() if known.get(key, {}).get("definition") != definition(*key)
    ]
    for number, key in enumerate(asked, 1):
        _say(f"{number} of {len(asked)}: {' '.join(key)} ...")
        try:
            line = measured(key, known, np.inf if named else LONGEST_S[key[0]])
        except TooLongError as fault:
            _say(f"  left out: about {fault.args[0] / 60:,.0f} min; name it to measure it")
            continue
        except FleetsimError as fault:
            _say(f"  left out: {fault}")
            continue
        known = {**stored(), key: line}
        kept = (json.dumps(known[one], separators=(",", ":")) for one in cards() if one in known)
        atomic_files.write(STORE, "\n".join([*kept, ""]).encode(), hint="make docs/ writable")
        _say(f"  {line['cpu_s']:g} s of processor time" if "cpu_s" in line else "  stored")


if __name__ == "__main__":
    main()
