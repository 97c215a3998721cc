"""Setup of a study for its page, and notes where its runs were made differently.

docs/develop/kernels.md defines the numerical platform; results of different ones may differ in
their last bits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from fleetsim.record.manifest import Manifest, platform_differences
from fleetsim.report.markup import Table
from fleetsim.report.pages.setup import SetupBlock, made_by, merged
from fleetsim.report.quantities import some
from fleetsim.scenario import setup_of
from fleetsim.schema.strict_yaml import shown
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.settings import WHOLE_RUN
from fleetsim.studies.study import STUDY_FILE, Study

_MOST_NAMED = 4
_MOST_SEEDS = 20
_UNKNOWN = "unknown"


def setup_block(study: Study, store: RunStore) -> SetupBlock:
    """Return what the study simulates: facts of its scenarios and runs, and all overrides."""
    settings, manifests = study.settings, _manifests(study, store)
    parameters = {
        (planned.condition, planned.arm): manifests[planned.key].num_parameters
        for planned in study.runs
        if planned.key in manifests
    }
    plan = {
        "seeds": some([str(seed) for seed in settings.seeds], _MOST_SEEDS, ", "),
        "targets": ", ".join(target.label for target in settings.all_targets) or WHOLE_RUN,
        "budgets": "" if settings.budgets is None else _changes(settings.budgets.model_dump()),
        "prices": "" if study.prices is None else study.prices.title,
    }
    cells = [
        setup_of(scenario.data(), num_parameters=parameters.get(cell))
        for cell, scenario in study.cells.items()
    ]
    baseline = study.cells[study.conditions[0].label, settings.baseline_arm]
    return SetupBlock(
        merged([{"scenario": settings.scenario}, *cells, plan, *map(made_by, manifests.values())]),
        {"Overrides of the scenario: what runs differ in besides their seeds.": _overrides(study)},
        {
            "The study file, as executed": study.to_yaml(),
            f"The scenario of {settings.baseline_arm}, with every default": baseline.to_yaml(),
        },
        STUDY_FILE,
    )


def _overrides(study: Study) -> Table:
    settings = study.settings
    rows = [("all runs", _changes(settings.overrides))]
    for arm, changes in settings.arms.items():
        is_baseline = arm == settings.baseline_arm and len(settings.arms) > 1
        role = " (baseline)" if is_baseline else ""
        rows.append((f"{arm}{role}", _changes(changes)))
    for key, levels in settings.vary.items():
        if isinstance(levels, dict):
            rows += [(f"{key} = {label}", _changes(of)) for label, of in levels.items()]
        else:
            rows.append(("conditions", f"{key}: {' or '.join(map(shown, levels))}"))
    return Table(("runs", "overrides"), rows, is_text=True)


def _changes(changes: Mapping[str, Any]) -> str:
    """Return overrides on one line."""
    return "; ".join(f"{key}: {shown(value)}" for key, value in changes.items()) or "none"


def mixtures(study: Study, store: RunStore) -> Iterator[str]:
    """Yield a line for platforms and one for versions, if the complete runs have several.

    Damaged runs are left out.
    """
    manifests = list(_manifests(study, store).values())
    # A run of a study has one platform: it begins anew on another.
    firsts = {each.id: each for manifest in manifests for each in manifest.platforms[:1]}
    counts = Counter(
        manifest.platforms[0].id if manifest.platforms else _UNKNOWN for manifest in manifests
    )
    if len(counts) > 1:
        known = platform_differences(firsts.values()) if len(firsts) > 1 else []
        differ = f"; they differ in {some(known, _MOST_NAMED)}" if known else ""
        yield (
            f"the runs were made on {len(counts)} numerical platforms ({_counted(counts)}), so"
            f" their last bits may differ, and where two clients are almost equal, choices{differ}"
        )
    versions = Counter(manifest.versions.get("fleetsim", _UNKNOWN) for manifest in manifests)
    if len(versions) > 1:
        yield (
            f"the runs were made by {len(versions)} versions of fleetsim ({_counted(versions)});"
            " delete the folders of the older ones, and run the study again"
        )


def _manifests(study: Study, store: RunStore) -> dict[str, Manifest]:
    """Return the manifests of the complete runs by key."""
    done = {planned.key: planned for planned in study.runs if store.status(planned) == "done"}
    opened = {key: store.open(planned) for key, planned in done.items()}
    return {key: run.manifest for key, run in opened.items() if run is not None}


def _counted(counts: Counter[str]) -> str:
    return some([f"{name}: {number}" for name, number in counts.most_common()], _MOST_NAMED, ", ")
