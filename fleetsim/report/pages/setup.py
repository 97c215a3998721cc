"""Setup block of a page: what was simulated, and by what, for a reader who has the page alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fleetsim.record.manifest import Manifest, PlatformRecord, PluginRecord
from fleetsim.record.saved_run import Run
from fleetsim.report.markup import Table
from fleetsim.scenario import setup_of

VERSIONS = ("fleetsim", "torch", "numpy", "python")
"""Versions of the block; the manifest has more."""
_FEATURES = ("system", "processor", "torch_device")
_MOST_VALUES = 6


@dataclass(frozen=True, slots=True)
class SetupBlock:
    """Content of the block, in the order in which it is shown."""

    facts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Facts by label, each with the values of all runs."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Tables by caption."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Files by heading, folded."""
    file: str = ""
    """Name of a file beside the page that repeats it all; empty: none."""


def facts_of_runs(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Return the facts of runs."""
    return merged(
        setup_of(run.scenario, num_parameters=run.manifest.num_parameters)
        | {"seed": str(run.manifest.seed)}
        | made_by(run.manifest)
        for run in runs
    )


def made_by(manifest: Manifest) -> dict[str, str]:
    """Return the facts of a run that its scenario does not name."""
    known = manifest.versions
    return {
        "plug-ins": "; ".join(map(_plugin, manifest.plugins)),
        "versions": ", ".join(f"{name} {known[name]}" for name in VERSIONS if name in known),
        "platform": "; ".join(map(_platform, manifest.platforms)),
    }


def merged(several: Iterable[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return every label with the first of its values, each once; empty ones are left out.

    >>> merged([{"cohort": "8", "deadline": "2 s"}, {"cohort": "8", "deadline": "5 s"}])
    {'cohort': ['8'], 'deadline': ['2 s', '5 s']}
    """
    values: dict[str, dict[str, None]] = {}
    for facts in several:
        for label, value in facts.items():
            values.setdefault(label, {}).update({value: None} if value else {})
    return {
        label: [*each][:_MOST_VALUES]
        + ([f"and {len(each) - _MOST_VALUES} more"] if len(each) > _MOST_VALUES else [])
        for label, each in values.items()
        if each
    }


def _plugin(plugin: PluginRecord) -> str:
    version, source = plugin.version or "unknown", (plugin.source_sha256 or "unknown")
    return f"{plugin.kind} {plugin.name} (version {version}, SHA-256 {source[:12]})"


def _platform(platform: PlatformRecord) -> str:
    known = [platform.features[name] for name in _FEATURES if name in platform.features]
    return f"{platform.id} ({', '.join(known)})"
