"""The run of a scenario into a folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from fleetsim.contracts import Progress, Trainer, Work, WorkKind
from fleetsim.engine.servers.buffered import BufferedServer
from fleetsim.engine.servers.global_model import Learning
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.server import Server
from fleetsim.engine.servers.synchronous import SynchronousServer
from fleetsim.errors import ScenarioError
from fleetsim.fleet.population import build_fleet
from fleetsim.host import paths
from fleetsim.host.numerics import OneBlasThread
from fleetsim.host.plugin_sources import source_of
from fleetsim.host.termination import terminable
from fleetsim.host.turns import Environment, turn
from fleetsim.learning.aggregation.uploads import CompressedUplink, refusal_reasons
from fleetsim.learning.global_generators import GlobalGenerators
from fleetsim.learning.torch_settings import TorchSettings
from fleetsim.record.manifest import ClusterRecord, PlatformRecord, ResultsCacheRecord
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.saved_run import Run, open_run
from fleetsim.run_settings import RunSettings, taking
from fleetsim.scenario import BufferedServerSettings, Scenario, transformer_warning
from fleetsim.scenario.shortest_tasks import unmet_deadline
from fleetsim.simulate import built_parts
from fleetsim.simulate.recorded_run import held_folder, restoring, run_recorded
from fleetsim.simulate.run_manifest import manifest_of, tracked_run
from fleetsim.trackers.following import Following
from fleetsim.training.dask_pool import DaskWorkers, connected
from fleetsim.training.preparation import prepare_task
from fleetsim.training.trainers import DataTrainer
from fleetsim.user.parts.trackers import trackers_among


@terminable()
@turn(Environment, GlobalGenerators, TorchSettings, OneBlasThread)
@taking(RunSettings)
def run(scenario: Scenario, settings: RunSettings) -> Run:
    """Run a scenario into a folder; the fields of `RunSettings` are given as keywords.

    Raises:
        ScenarioError: the scenario cannot be run with these arguments.
        DataError: a file is missing or wrong, or the folder cannot be written.
        SimulationError: an invariant was broken; all that was recorded is in the folder.
        TrainingError: a training process failed or was killed; the run can be resumed.
        PluginError: code of the user's own failed.
        TrackerError: a tracker of fleetsim failed; the run can be resumed.
        KeyboardInterrupt: interrupted; the run can be resumed, and a note names the folder.
        Terminated: the same by SIGTERM, in the main thread of a program that does not handle it.
    """
    if settings.selector is not None:
        scenario = scenario.with_selector(settings.selector)
    with _cluster(scenario, settings) as cluster:
        return _run(scenario, settings, cluster)


@contextmanager
def _cluster(scenario: Scenario, settings: RunSettings) -> Iterator[DaskWorkers | None]:
    """Yield the workers that train within the block; None: processes of this host do."""
    address = settings.dask
    if address is None:
        yield None
        return
    others = {
        "--no-train leaves nothing to its workers": not settings.train,
        "--workers counts processes of this machine": settings.workers is not None,
        "--torch-device is that of this machine": settings.torch_device != "cpu",
        "--results-cache is a folder of this machine": settings.results_cache is not None,
    }
    for reason, is_other in others.items():
        if is_other:
            raise ScenarioError(f"--dask {address}: {reason}; leave one of both out")
    names = [f"{plugin.kind.name}={plugin.name}" for plugin in scenario.plugins]
    # What a script defines itself has no module, and travels with its code.
    sources = tuple(source_of(name) for name in names if "=__main__:" not in name)
    with connected(address, sources, settings.on_note or (lambda line: None)) as workers:
        yield workers


def _run(scenario: Scenario, settings: RunSettings, cluster: DaskWorkers | None) -> Run:
    """Run a scenario whose jobs the workers of a cluster compute, or processes of this host."""
    chosen = built_parts.build_selector(scenario, train=settings.train)
    followers = [*settings.trackers, *trackers_among(scenario.plugins)]
    accountant = built_parts.build_accountant(scenario, train=settings.train)
    prepared = prepare_task(
        built_parts.task_request(scenario),
        train=settings.train,
        torch_device=settings.torch_device,
        workers=settings.workers,
        prefetched=settings.reading,
        results_cache=None
        if settings.results_cache is None
        else paths.local(settings.results_cache),
        cluster=cluster,
    )
    platform = PlatformRecord.of(prepared.platform, prepared.forms)
    # Like the selector, before the folder is created: a plug-in may refuse to be made.
    aggregator = built_parts.build_aggregator(scenario, prepared.buffers)
    fleet = build_fleet(
        scenario.fleet,
        seed=scenario.clients_seed,
        num_samples=prepared.samples.num_samples,
        num_evaluated=prepared.samples.num_evaluated,
        files=scenario.files,
        owners=prepared.samples.owners,
    )
    if fleet.memory is not None:
        # Refuse a model that fits no device before creating the folder.
        fleet.memory.spare_byte(
            prepared.cost,
            num_samples=prepared.samples.num_samples,
            batching=scenario.task.local.batching,
        )
    upload_byte = prepared.upload_byte(scenario.server.compression)
    unmet = unmet_deadline(scenario, fleet, prepared.cost, upload_byte)
    on_note = settings.on_note or (lambda line: None)
    if unmet is not None:
        on_note(f"warning: {unmet}")
    begins = manifest_of(
        scenario, prepared, platform, fleet.device_figures, run_key=settings.run_key, unmet=unmet
    )
    with held_folder(settings, begins, platform, scenario=scenario.to_yaml()) as (folder, manifest):
        if manifest.status == "done":
            return open_run(folder)
        if prepared.trainer_reason is not None:
            on_note(prepared.trainer_text)
        slow = transformer_warning(scenario, prepared.cost)
        # Of a network of the user's own, known since it was built; others were recognised before.
        if slow is not None and not scenario.task.model.is_transformer:
            on_note(slow)
        every_rounds = scenario.checkpoint.every_rounds
        recorder, state = RunRecorder.resume(
            folder, run=manifest.identity, every_rounds=every_rounds
        )
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
                batching=scenario.task.local.batching,
                upload_byte=prepared.upload_byte(scenario.server.compression),
                learning_rate_at=scenario.task.local.optimizer.learning_rate_at,
                trainer=prepared.trainer,
                uplink=CompressedUplink(scenario.server.compression, seed=scenario.seed),
                screen=partial(refusal_reasons, max_update_norm=scenario.server.max_update_norm),
                aggregator=aggregator,
                accountant=accountant,
                secure_sum=built_parts.build_secure_sum(scenario, prepared),
                evaluate_every_rounds=scenario.evaluate.every_rounds,
                partial_fraction=scenario.task.local.partial_fraction,
                memory=built_parts.build_client_memory(scenario, prepared),
                label_coverage=prepared.samples.label_coverage,
            ),
            selector=chosen,
            user_selector=built_parts.user_part(scenario, "selector"),
            recorder=following if followers else recorder,
            energy=scenario.energy,
            seed=scenario.seed,
            clients_hash=scenario.clients_hash,
            on_progress=_with_workers(settings.on_progress, cluster),
        )
        server: Server
        with restoring(folder, state):
            if isinstance(scenario.server, BufferedServerSettings):
                server = BufferedServer(scenario.server, scenario.stop, parts, state=state)
            else:
                server = SynchronousServer(scenario.server, scenario.stop, parts, state=state)
            begun = tracked_run(scenario, folder, state)
        following.begin(begun)
        done = run_recorded(
            server.run,
            server,
            recorder,
            following,
            folder,
            manifest,
            selector=scenario.server.selector.kind,
            at_end=partial(_use_records, prepared.trainer, cluster),
        )
        if done.manifest.cluster is not None:
            on_note(done.manifest.cluster.text)
        if (cache := done.manifest.results_cache) is not None:
            on_note(cache.text)
        elif settings.results_cache is not None and settings.train:
            on_note("results cache: not used, for code of your own has no content to find it by")
        return done


def _use_records(trainer: Trainer, cluster: DaskWorkers | None) -> dict[str, object]:
    """Return the use of the results cache and of the cluster for the manifest, if there are any."""
    records: dict[str, object] = {}
    if not isinstance(trainer, DataTrainer):
        return records
    if trainer.use_of_store is not None:
        records["results_cache"] = ResultsCacheRecord.model_validate(trainer.use_of_store)
    if cluster is not None:
        records["cluster"] = ClusterRecord.model_validate(cluster.use(trainer.num_rounds))
    return records


def _with_workers(
    on_progress: Callable[[Progress], None] | None, cluster: DaskWorkers | None
) -> Callable[[Progress], None] | None:
    """Return the callback of a run, which is told the number of the cluster's workers, too."""
    if on_progress is None or cluster is None:
        return on_progress
    return lambda progress: on_progress(replace(progress, num_workers=cluster.num_workers))
