"""A planned run of a study: its scenario, its key, and the manifest that its folder must have."""

from dataclasses import dataclass
from pathlib import Path

from fleetsim.errors import DataError
from fleetsim.quoting import quoted
from fleetsim.record.manifest import MANIFEST, Manifest
from fleetsim.scenario import Scenario
from fleetsim.scenario.named_files import digest, user_paths
from fleetsim.schema import overrides

_SHOWN_DIGITS = 8


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a study."""

    condition: str
    arm: str
    seed: int
    scenario: Scenario
    train: bool
    key: str
    """SHA-256 of everything that determines the tables of the run."""

    @property
    def name(self) -> str:
        """Name in messages."""
        return ", ".join(filter(None, (self.condition, self.arm, f"seed {self.seed}")))


def require_planned(folder: Path, manifest: Manifest, planned: PlannedRun) -> None:
    """Check that a manifest is that of a planned run, whatever its folder is called."""
    key, scenario = manifest.run_key, planned.scenario
    wanted = (planned.key, scenario.seed, scenario.content_hash)
    if (key, manifest.seed, manifest.scenario_hash) == wanted:
        return
    message = (
        "does not say which run of a study it is: `fleetsim run` or an older fleetsim made it"
        if key is None
        else f"is that of another run, {quoted(manifest.name)} with seed {manifest.seed} and"
        f" run_key {key[:_SHOWN_DIGITS]}..., not of {planned.name} with"
        f" {planned.key[:_SHOWN_DIGITS]}..."
    )
    raise DataError(f"{folder / MANIFEST}: {message}; move the folder to its own place")


def run_key(scenario: Scenario, *, train: bool) -> str:
    """Return the SHA-256 of everything that determines the tables of a run.

    That is the scenario without its name, whether it trains, the sources of its plug-ins, and the
    content of the user's own files that it names.
    """
    data = scenario.data()
    own = sorted(
        [plugin.kind.name, plugin.name, plugin.source_sha256, plugin.version]
        for plugin in scenario.plugins
        if plugin.kind.key_path is not None
    )
    what = {
        "scenario": {key: data[key] for key in data if key not in ("name", "checkpoint")},
        "train": train,
        "plugin": own or None,
        "files": {str(path): digest(path) for path, _ in user_paths(data)},
    }
    return overrides.content_hash(what)
