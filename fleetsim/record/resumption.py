"""The resumption of a run: what must be as when it began, and the platforms that it runs on."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fleetsim.errors import ScenarioError
from fleetsim.record.manifest import Manifest, PlatformRecord, PluginRecord

_MOST_NAMED = 4


class OtherPlatformError(ScenarioError):
    """Refusal to resume a run that began on another numerical platform."""


def require_same_run(folder: Path, before: Manifest, now: Manifest) -> None:
    """Check that a resumed run has the scenario, plug-ins, weights and trainer of its start."""
    for message in _differences(folder, before, now):
        raise ScenarioError(f"{folder}: {message}")


def _differences(folder: Path, before: Manifest, now: Manifest) -> Iterator[str]:
    """Yield a message for each thing that is not as when the run began."""
    yield from _other_plugins(before.plugins, now.plugins)
    if before.flower != now.flower:
        ran = "a Flower app" if before.flower is None else f"the Flower app {before.flower.app}"
        verb = "without" if before.flower is None else "with"
        same = "" if before.flower is None else ", the same source, configuration and flwr"
        yield f"was run {verb} {ran}{same}; resume it as it began, or run afresh"
    if before.scenario_hash != now.scenario_hash:
        yield (
            "was run with another scenario or seed; resume with the same SCENARIO, --seed and"
            f" --set, or with {folder / 'scenario.yaml'}"
        )
    if before.data_sha256 is not None and before.data_sha256 != now.data_sha256:
        yield (
            "the data of the user's own data set are not those that the run began with; restore"
            " them, or run afresh"
        )
    for path, digest in now.input_sha256.items():
        if before.input_sha256.get(path, digest) != digest:
            yield _changed(f"the content of {path}")
    yield from _other_gifts(before.plugins, now.plugins)
    if before.frozen_sha256 != now.frozen_sha256:
        yield (
            "the frozen weights of the network (requires_grad=False) are not those that the run"
            " began with; restore them, or run afresh"
        )
    if before.selector_weights != now.selector_weights:
        yield _changed("the weight file of the selector")
    if before.trainer != now.trainer:
        yield (
            f"was run with {before.trainer}, not with {now.trainer}; give or leave out --no-train"
            " as in that run"
        )


def _changed(what: str) -> str:
    return f"{what} is not as it was when the run began; restore it, or run afresh"


def _other_plugins(before: Sequence[PluginRecord], now: Sequence[PluginRecord]) -> Iterator[str]:
    """Yield the plug-ins that a resumed run lacks, has from other files, or has in addition."""
    then = {(plugin.kind, plugin.name): plugin for plugin in before if plugin.affects_results}
    here = {(plugin.kind, plugin.name): plugin for plugin in now if plugin.affects_results}
    for (kind, name), old in then.items():
        new = here.get((kind, name))
        if new is None:
            others = [other for its_kind, other in here if its_kind == kind]
            without = f", not {others[0]}" if others else ""
            yield (
                f"was run with the plug-in {name}{without}; give it again with --plugin {name}, or"
                " run afresh"
            )
        elif old.source_sha256 != new.source_sha256:
            yield _changed(f"the file of {name}")
        # Older runs have no version on record.
        elif old.version is not None and old.version != new.version:
            yield (
                f"{name} is version {new.version or '-'}, and was {old.version} when the run began;"
                " install that one, or run afresh"
            )
    for _, name in (key for key in here if key not in then):
        which = f"the plug-in {name}" if then else "a plug-in"
        yield f"was run without {which}; leave it out, or run afresh"


def _other_gifts(before: Sequence[PluginRecord], now: Sequence[PluginRecord]) -> Iterator[str]:
    """Yield the plug-ins of a resumed run that have not given what they gave when it began."""
    gave = {(plugin.kind, plugin.name): plugin.gave_sha256 for plugin in now}
    for old in before:
        if old.gave_sha256 is not None and old.gave_sha256 != gave[old.kind, old.name]:
            what = "splits the data otherwise" if old.kind == "partition" else "has other weights"
            yield (
                f"{old.name} {what} than when the run began; what it reads or draws has changed:"
                " restore it, or run afresh"
            )


def with_platform(
    folder: Path, manifest: Manifest, now: PlatformRecord, *, allow_other: bool
) -> Manifest:
    """Return the manifest of a resumed run, with the platform of this process."""
    if now in manifest.platforms:
        return manifest
    if not allow_other:
        if manifest.platforms:
            others = manifest.platforms[-1].differences(now)
            more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
            message = (
                "ran on another numerical platform; then and now differ in"
                f" {'; '.join(others[:_MOST_NAMED])}{more}"
            )
        else:
            message = "does not say on which numerical platform it ran"
        raise OtherPlatformError(
            f"{folder}: {message}; resume it there, start anew, or give --allow-other-platform,"
            " which puts both on record"
        )
    return manifest.model_copy(update={"platforms": (*manifest.platforms, now)})
