"""One run of a scenario: task, fleet, server and record are built, connected and started."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from fleetsim.contracts import (
    Accountant,
    Aggregator,
    BoolArray,
    ClientColumns,
    EndedRun,
    Progress,
    SecureSum,
    Selector,
    ServerPart,
    ServerStart,
    State,
    StopReason,
    TrackedRun,
    Tracker,
    Wire,
    Work,
    WorkKind,
)
from fleetsim.engine.servers.buffered import BufferedServer
from fleetsim.engine.servers.client_memory import ClientMemory
from fleetsim.engine.servers.global_model import Learning
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.server import Server
from fleetsim.engine.servers.synchronous import SynchronousServer
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.devices.memory import UncheckedSettings
from fleetsim.fleet.devices.uncertainty import DrawnFigure
from fleetsim.fleet.paired_users import paired_users
from fleetsim.fleet.population import build_fleet
from fleetsim.fleet.throttle import not_slowed_by_heat
from fleetsim.host.numerics import one_blas_thread
from fleetsim.host.termination import Terminated, terminable
from fleetsim.learning.aggregation.accountant import RdpAccountant
from fleetsim.learning.aggregation.compression import VALUE_BYTE, Uplink
from fleetsim.learning.aggregation.privacy import PrivateAggregator
from fleetsim.learning.aggregation.secure_aggregation import SecureAggregation
from fleetsim.learning.aggregation.update_screening import refusal_reasons
from fleetsim.learning.algorithms.settings import UNCOVERED
from fleetsim.learning.data.prefetch import Prefetch
from fleetsim.learning.training.preparation import (
    UNTRAINED,
    PreparedTask,
    TaskRequest,
    prepare_task,
)
from fleetsim.plugins.trackers import trackers_among
from fleetsim.quoting import quoted
from fleetsim.record.failures import Baseline, RunHistory, failures
from fleetsim.record.manifest import (
    DeviceFigureRecord,
    Manifest,
    PlatformRecord,
    PluginRecord,
    WeightsRecord,
    read_manifest,
    versions,
    with_platform,
    write_manifest,
)
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.run_folder import choose_folder, locked
from fleetsim.record.saved_run import Run, open_run
from fleetsim.scenario import (
    BufferedServerSettings,
    Scenario,
    never_ends,
    scenario_warnings,
)
from fleetsim.selectors import requirements
from fleetsim.selectors.learned_weights import weights_of, weights_sha256
from fleetsim.trackers.following import Following


@terminable()
@one_blas_thread()
def run(
    scenario: Scenario,
    *,
    out: str | Path | None = None,
    train: bool = True,
    torch_device: str = "cpu",
    workers: int | None = None,
    resume: bool = False,
    allow_other_platform: bool = False,
    selector: Selector | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    reading: Prefetch | None = None,
    trackers: Sequence[Tracker] = (),
) -> Run:
    """Run a scenario into a folder.

    Args:
        scenario: scenario to run.
        out: run folder; `runs/NAME-HASH` (then -2, -3 ...) unless given.
        train: if true, models are trained. If false, there is no accuracy; times and joules are the
            same for every selector that does not use losses.
        torch_device: device of the training, `cpu` or `cuda`.
        workers: number of processes that train, this one included; changes the time alone. None:
            one for every core.
        resume: continue the unfinished run in `out`, or the last one of this scenario. A complete
            run is returned unchanged; if there is no run, it begins.
        allow_other_platform: resume even on another numerical platform; the run folder then names
            both.
        selector: selector object that replaces the scenario's selector. The resolved scenario names
            its class as `server.selector.kind`; the object's arguments are not recorded.
        on_progress: callback after every round.
        on_note: callback with a line of text if `resume` found no run, or a complete one.
        reading: the scenario's data set, if reading has begun; None: it is read now.
        trackers: told of the run's begin, of every round and of its end, beside those among the
            plug-ins of the scenario.

    Raises:
        ScenarioError: the scenario cannot be run with these arguments.
        DataError: a file is missing or wrong, or the folder cannot be written.
        SimulationError: an invariant was broken; all that was recorded is in the folder.
        TrainingError: a training process failed or was killed; the run can be resumed.
        TrackerError: a tracker failed; the run can be resumed.
        KeyboardInterrupt: interrupted; the run can be resumed, and a note names the folder.
        Terminated: the same by SIGTERM, in the main thread of a program that does not handle it.
    """
    if selector is not None:
        scenario = scenario.with_selector(selector)
    chosen = _build_selector(scenario, train=train)
    followers = [*trackers, *trackers_among(scenario.plugins)]
    request = TaskRequest(
        task=scenario.task,
        trainer=scenario.trainer,
        seed=scenario.seed,
        clients_seed=scenario.clients_seed,
        num_clients=scenario.fleet.size,
        validation_fraction=scenario.evaluate.validation_fraction,
        measures_memory=not isinstance(scenario.fleet.memory, UncheckedSettings),
        paired=paired_users(scenario.fleet, scenario.files),
    )
    accountant = _build_accountant(scenario, train=train)
    prepared = prepare_task(
        request, train=train, torch_device=torch_device, workers=workers, prefetched=reading
    )
    platform = PlatformRecord.of(prepared.platform, prepared.forms)
    # Like the selector, before the folder is created: a plug-in may refuse to be made.
    aggregator = _build_aggregator(scenario, prepared.buffers)
    fleet = build_fleet(
        scenario.fleet,
        seed=scenario.clients_seed,
        num_samples=prepared.num_samples,
        num_evaluated=prepared.num_evaluated,
        files=scenario.files,
        owners=prepared.owners,
    )
    if fleet.memory is not None:
        # Refuse a model that fits no device before creating the folder.
        fleet.memory.spare_byte(
            prepared.cost,
            num_samples=prepared.num_samples,
            batch_size=scenario.task.local.batch_size,
        )
    folder, manifest = choose_folder(
        out,
        _manifest_of(scenario, prepared, platform, fleet.device_figures),
        scenario=scenario.to_yaml(),
        resume=resume,
        on_note=on_note or (lambda line: None),
    )
    if manifest.status == "done":
        return open_run(folder)
    with naming_folder(folder), locked(folder):
        manifest = read_manifest(folder)
        if manifest.status == "done":
            # Another process has completed the run in the meantime.
            return open_run(folder)
        manifest = with_platform(folder, manifest, platform, allow_other=allow_other_platform)
        wire, memory = _own_training(scenario, prepared)
        every_rounds = scenario.checkpoint.every_rounds
        recorder, state = RunRecorder.resume(folder, every_rounds=every_rounds)
        following = Following(recorder, followers)
        parts = Parts(
            fleet=fleet,
            learning=Learning(
                parameters=prepared.parameters,
                cost=prepared.cost,
                training=Work(
                    WorkKind.TRAIN,
                    epochs=scenario.task.local.epochs or 0,
                    steps=scenario.task.local.steps,
                    clock_fraction=scenario.task.local.clock_fraction,
                ),
                batch_size=scenario.task.local.batch_size,
                upload_byte=prepared.upload_byte(scenario.server.compression),
                learning_rate_at=scenario.task.local.optimizer.learning_rate_at,
                trainer=prepared.trainer,
                uplink=Uplink(scenario.server.compression, seed=scenario.seed),
                screen=partial(refusal_reasons, max_update_norm=scenario.server.max_update_norm),
                aggregator=aggregator,
                accountant=accountant,
                secure_sum=_build_secure_sum(scenario, prepared),
                evaluate_every_rounds=scenario.evaluate.every_rounds,
                partial_fraction=scenario.task.local.partial_fraction,
                memory=memory,
                wire=wire,
                label_coverage=prepared.label_coverage,
            ),
            selector=chosen,
            recorder=following if followers else recorder,
            energy=scenario.energy,
            seed=scenario.seed,
            clients_hash=scenario.clients_hash,
            on_progress=on_progress,
        )
        server: Server
        if isinstance(scenario.server, BufferedServerSettings):
            server = BufferedServer(scenario.server, scenario.stop, parts, state=state)
        else:
            server = SynchronousServer(scenario.server, scenario.stop, parts, state=state)
        following.begin(_tracked(scenario, folder, state))
        # Written last: a run that cannot continue keeps its manifest.
        begun = {"status": "running", "stop_text": None, "table_digests": None}
        manifest = manifest.model_copy(update=begun)
        write_manifest(folder, manifest)
        kind = scenario.server.selector.kind
        return run_recorded(server, recorder, following, folder, manifest, kind)


def _own_training(scenario: Scenario, prepared: PreparedTask) -> tuple[Wire, ClientMemory | None]:
    """Return the arrays of the clients' own training, and their bytes on the wire.

    Raises:
        ScenarioError: its part on the server reads updates that privacy would have to cover.
        TrainingError: its part on the server fails, or sends more than it says.
    """
    algorithm = prepared.algorithm
    if algorithm is None:
        return Wire(), None
    wire, server = Wire(), scenario.server
    if isinstance(algorithm, ServerPart):
        for key in ("privacy", "secure_aggregation"):
            if getattr(server, key, None) is not None:
                says = UNCOVERED.format(kind=scenario.task.local.algorithm.kind)
                raise ScenarioError(f"server.{key}: {says}")
        wire = algorithm.wire(prepared.cost.num_parameters)
    start = ServerStart(prepared.parameters, prepared.buffers, prepared.num_samples.size)
    return wire, ClientMemory(algorithm, start, wire)


def _build_selector(scenario: Scenario, *, train: bool) -> Selector:
    """Return the scenario's selector.

    Raises:
        ScenarioError: the selector does not suit the server or a run without training, or such a
            run never ends.
    """
    selector = scenario.build_selector()
    is_buffered = isinstance(scenario.server, BufferedServerSettings)
    says = requirements.unmet(selector, is_trained=train, is_buffered=is_buffered)
    if says is not None:
        raise ScenarioError(
            f"server.selector.kind = {quoted(scenario.server.selector.kind)} {says}"
        )
    never = None if train else never_ends(scenario)
    if never is not None:
        raise ScenarioError(f"stop.accuracy = {scenario.stop.accuracy:g}: {never}")
    return selector


def _build_aggregator(scenario: Scenario, buffers: BoolArray) -> Aggregator:
    """Return the scenario's aggregator, behind noise if it asks for privacy.

    Raises:
        ScenarioError: privacy, of a model with buffers.
    """
    server = scenario.server
    aggregator: Aggregator = server.aggregator.build(buffers=buffers)
    if isinstance(server, BufferedServerSettings) or server.privacy is None:
        return aggregator
    return PrivateAggregator(
        server.privacy, aggregator, seed=scenario.seed, cohort=server.cohort, buffers=buffers
    )


def _build_secure_sum(scenario: Scenario, prepared: PreparedTask) -> SecureSum | None:
    """Return the secure aggregation of the scenario's model; None if there is none."""
    server = scenario.server
    if isinstance(server, BufferedServerSettings) or server.secure_aggregation is None:
        return None
    return SecureAggregation(
        server.secure_aggregation,
        num_values=-(-prepared.cost.payload_byte // VALUE_BYTE),
        seed=scenario.seed,
    )


def _build_accountant(scenario: Scenario, *, train: bool) -> Accountant | None:
    """Return the accountant of a run that trains with privacy; None of another.

    Raises:
        ScenarioError: its library is not installed.
    """
    server = scenario.server
    if isinstance(server, BufferedServerSettings) or server.privacy is None or not train:
        return None
    return RdpAccountant(server.privacy)


@contextmanager
def naming_folder(folder: Path) -> Iterator[None]:
    """Add the run folder to an interrupt, unless a note names it already."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not getattr(interrupt, "__notes__", []):
            interrupt.add_note(f"the run in {folder} is unchanged")
        raise


class RunsToTheEnd(Protocol):
    """A run on a clock until a rule ends it, with its rounds and clients."""

    @property
    def now_s(self) -> float:
        """Virtual time."""

    @property
    def num_rounds(self) -> int:
        """Rounds closed so far."""

    def run(self) -> StopReason:
        """Run until a stop rule holds; return its reason."""

    def clients(self) -> ClientColumns:
        """Return the clients table at this moment."""


def run_recorded(
    server: RunsToTheEnd,
    recorder: RunRecorder,
    following: Following,
    folder: Path,
    manifest: Manifest,
    selector: str,
) -> Run:
    """Run to the end, and write the manifest, also after an interrupt or a fault."""
    began_s = time.perf_counter()

    def current(**changes: object) -> Manifest:
        return manifest.model_copy(
            update={
                "rounds": server.num_rounds,
                "virtual_s": server.now_s,
                "host_s": manifest.host_s + time.perf_counter() - began_s,
                "table_digests": recorder.table_digests,
                **changes,
            }
        )

    try:
        with _frozen_objects():
            reason: StopReason = server.run()
        digest = recorder.finish(server.clients())
    except KeyboardInterrupt as interrupt:
        recorder.flush()
        says = "ended by SIGTERM" if isinstance(interrupt, Terminated) else "interrupted"
        write_manifest(folder, current(status="interrupted", stop_text=says))
        following.cut_short(EndedRun(folder, "interrupted", says, None), interrupt)
        interrupt.add_note(f"{server.num_rounds} round(s) are recorded in {folder}")
        raise
    except BaseException as fault:
        recorder.flush()
        says = str(fault) or type(fault).__name__
        write_manifest(folder, current(status="failed", stop_text=says))
        following.cut_short(EndedRun(folder, "failed", says, None), fault)
        raise
    found = failures(
        RunHistory.read(folder),
        baseline=manifest.baseline,
        stop_rule=reason.rule,
        stop_text=reason.text,
        selector=selector,
    )
    write_manifest(
        folder,
        current(
            status="done",
            stop_rule=reason.rule,
            stop_text=reason.text,
            digest=digest,
            failures=tuple(found),
        ),
    )
    following.end(EndedRun(folder, "done", reason.text, digest))
    return open_run(folder)


def _tracked(scenario: Scenario, folder: Path, state: State | None) -> TrackedRun:
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


@contextmanager
def _frozen_objects() -> Iterator[None]:
    """Exempt all present objects from garbage collection within the block.

    Rounds of 1,000 clients keep so many objects that every ninth round started a full collection.
    It scanned all of torch's modules, which took as long as a round.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _manifest_of(
    scenario: Scenario,
    prepared: PreparedTask,
    platform: PlatformRecord,
    drawn: tuple[DrawnFigure, ...],
) -> Manifest:
    """Return the manifest of a run of the scenario that begins now."""
    trainer, labels = prepared.trainer_kind, prepared.test_labels
    weights = weights_of(scenario.server.selector)
    profiles = [
        profile
        for name in scenario.fleet.devices
        for profile in load_devices(name, files=scenario.files)
    ]
    return Manifest(
        name=scenario.name,
        status="running",
        seed=scenario.seed,
        trainer=trainer,
        trainer_reason=prepared.trainer_reason,
        plugins=tuple(
            PluginRecord(
                kind=own.kind.name,
                name=own.name,
                source_sha256=own.source_sha256,
                version=own.version,
                affects_results=own.kind.key_path is not None,
            )
            for own in scenario.plugins
        ),
        data_sha256=prepared.data_sha256,
        selector_weights=None
        if weights is None
        else WeightsRecord(name=weights, sha256=weights_sha256(weights)),
        not_slowed_by_heat=tuple(not_slowed_by_heat(scenario.fleet.thermal, profiles)),
        device_figures=tuple(
            DeviceFigureRecord(
                hardware=figure.hardware,
                name=figure.name,
                figure=figure.figure,
                sourced=figure.sourced,
                inferred=figure.is_inferred,
                factor=figure.factor,
                used=figure.used,
            )
            for figure in drawn
        ),
        device_kinds={profile.name: profile.kind for profile in profiles},
        checkpoint_every_rounds=scenario.checkpoint.every_rounds,
        scenario_hash=scenario.content_hash,
        world_hash=scenario.world_hash,
        platforms=(platform,),
        versions=versions(),
        warnings=tuple(scenario_warnings(scenario, train=trainer != UNTRAINED)),
        baseline=None if labels is None else Baseline.of(labels),
    )
