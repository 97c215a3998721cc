"""Manifest of a run that begins, and its description for trackers."""

import hashlib
from pathlib import Path
from typing import Any

from fleetsim.contracts import State, TrackedRun
from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.devices.uncertainty import DrawnFigure
from fleetsim.fleet.throttle import not_slowed_by_heat
from fleetsim.record.failures import Baseline
from fleetsim.record.identity import WeightsRecord
from fleetsim.record.manifest import (
    DeviceFigureRecord,
    Manifest,
    PlatformRecord,
    PluginRecord,
    versions,
)
from fleetsim.scenario import Scenario, scenario_warnings, transformer_warning
from fleetsim.scenario.named_files import carried_digests
from fleetsim.selectors.learned_weights import weights_of, weights_sha256
from fleetsim.training.prepared_task import UNTRAINED, PreparedTask
from fleetsim.user import Plugin


def tracked_run(scenario: Scenario, folder: Path, state: State | None) -> TrackedRun:
    """Return what trackers are told of a run that begins, or continues from a state."""
    place = f"{scenario.content_hash} {folder.resolve()}"
    return TrackedRun(
        name=scenario.name,
        folder=folder,
        scenario=scenario.data(),
        seed=scenario.seed,
        scenario_hash=scenario.content_hash,
        versions=versions(),
        identity=hashlib.sha256(place.encode()).hexdigest()[:16],
        num_rounds=0 if state is None else int(state["rounds/round"]),
    )


def begun_manifest(scenario: Scenario, platform: PlatformRecord, **others: Any) -> Manifest:
    """Return the manifest of a run on a scenario's fleet that begins now, with other fields."""
    profiles = [
        profile
        for name in scenario.fleet.devices
        for profile in load_devices(name, files=scenario.files)
    ]
    return Manifest(
        status="running",
        seed=scenario.seed,
        input_sha256=carried_digests(scenario.data()),
        not_slowed_by_heat=tuple(not_slowed_by_heat(scenario.fleet.thermal, profiles)),
        device_kinds={profile.name: profile.kind for profile in profiles},
        checkpoint_every_rounds=scenario.checkpoint.every_rounds,
        scenario_hash=scenario.content_hash,
        platforms=(platform,),
        **others,
    )


def manifest_of(
    scenario: Scenario,
    prepared: PreparedTask,
    platform: PlatformRecord,
    drawn: tuple[DrawnFigure, ...],
    *,
    run_key: str | None,
    unmet: str | None,
) -> Manifest:
    """Return the manifest of a run of the scenario that begins now.

    `unmet` says why no client can meet the deadline, if so.
    """
    labels, weights = prepared.test_labels, weights_of(scenario.server.selector)
    warnings = scenario_warnings(scenario, train=prepared.trainer_kind != UNTRAINED)
    slow = transformer_warning(scenario, prepared.cost)
    # Only the network and the fleet can tell.
    warnings += [line for line in (slow, unmet) if line is not None and line not in warnings]
    return begun_manifest(
        scenario,
        platform,
        name=scenario.name,
        num_parameters=prepared.cost.num_parameters,
        trainer=prepared.trainer_kind,
        trainer_reason=prepared.trainer_reason,
        plugins=tuple(
            PluginRecord(
                kind=plugin.kind.name,
                name=plugin.name,
                source_sha256=plugin.source_sha256,
                version=plugin.version,
                gave_sha256=_given_by(plugin, prepared),
                affects_results=plugin.kind.key_path is not None,
            )
            for plugin in scenario.plugins
        ),
        data_sha256=prepared.samples.data_sha256,
        frozen_sha256=prepared.frozen_sha256,
        selector_weights=None
        if weights is None
        else WeightsRecord(name=weights, sha256=weights_sha256(weights)),
        run_key=run_key,
        device_figures=tuple(
            DeviceFigureRecord.model_validate(figure, from_attributes=True) for figure in drawn
        ),
        world_hash=scenario.world_hash,
        versions=versions(),
        warnings=tuple(warnings),
        baseline=None if labels is None else Baseline.of(labels),
    )


def _given_by(plugin: Plugin, prepared: PreparedTask) -> str | None:
    """Return the SHA-256 of what a plug-in gave before the run; None: nothing that stays."""
    if plugin.kind.name == "model":
        return hashlib.sha256(prepared.parameters.tobytes()).hexdigest()
    return prepared.samples.split_sha256 if plugin.kind.name == "partition" else None
