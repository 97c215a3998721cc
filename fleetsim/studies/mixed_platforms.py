"""Notes on a study whose runs were made on several numerical platforms, or by several versions.

docs/outputs.md defines the platform; results of different platforms may differ in their last bits.
"""

from collections import Counter
from collections.abc import Iterator

from fleetsim.record.manifest import platform_differences
from fleetsim.report.quantities import some
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import Study

_MOST_NAMED = 4
_UNKNOWN = "unknown"


def mixtures(study: Study, store: RunStore) -> Iterator[str]:
    """Yield a line for platforms and one for versions, if the complete runs have several.

    Damaged runs are left out.
    """
    done = {planned.key: planned for planned in study.runs if store.status(planned) == "done"}
    manifests = [run.manifest for run in map(store.open, done.values()) if run is not None]
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


def _counted(counts: Counter[str]) -> str:
    return some([f"{name}: {number}" for name, number in counts.most_common()], _MOST_NAMED, ", ")
