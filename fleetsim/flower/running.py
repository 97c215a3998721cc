"""One run of a Flower app on a scenario's fleet, into a run folder."""

import importlib
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from fleetsim.contracts import StopReason
from fleetsim.engine.tasks.interruption import PartialSettings
from fleetsim.engine.world import World
from fleetsim.errors import ScenarioError
from fleetsim.fleet.population import build_fleet
from fleetsim.flower import versions
from fleetsim.flower.app import App, read_app
from fleetsim.flower.call_record import CallRecord
from fleetsim.flower.client_nodes import ClientNodes, errors_of_app
from fleetsim.flower.grid import VirtualGrid, flower_grid
from fleetsim.flower.message_server import MessageServer, RunStopped
from fleetsim.flower.rounds_of_messages import RoundsOfMessages
from fleetsim.flower.server_app import on_virtual_clock
from fleetsim.host.numerics import OneBlasThread
from fleetsim.host.termination import terminable
from fleetsim.host.turns import Environment, turn
from fleetsim.kernels.cpu.numerical_platform import resolve
from fleetsim.learning.global_generators import GlobalGenerators, addressed
from fleetsim.learning.torch_settings import TorchSettings
from fleetsim.record.checkpoint import FOLDER
from fleetsim.record.identity import FlowerRecord
from fleetsim.record.manifest import Manifest, PlatformRecord
from fleetsim.record.manifest import versions as library_versions
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.saved_run import Run, open_run
from fleetsim.run_settings import RunFolderSettings
from fleetsim.scenario import Scenario
from fleetsim.schema import overrides
from fleetsim.simulate.recorded_run import held_folder, run_recorded
from fleetsim.simulate.run_manifest import begun_manifest
from fleetsim.trackers.following import Following

TRAINER = "flower"
"""Name of the trainer in manifests: the client app trains."""
WITHOUT_EFFECT = (
    "task, trainer, evaluate and server have no effect, except for server.eligibility and"
    " server.interruption: the app has data, models, strategy and timeouts of its own"
)


@terminable()
@turn(Environment, GlobalGenerators, TorchSettings, OneBlasThread)
def run(
    app_folder: str | Path,
    scenario: Scenario,
    settings: RunFolderSettings = RunFolderSettings(),  # noqa: B008 - frozen
    *,
    run_config: Sequence[str] = (),
    shows_log: bool = False,
    on_client_error: Literal["reply", "stop"] = "reply",
) -> Run:
    """Run a Flower app on the fleet of a scenario. Its code is executed.

    Args:
        app_folder: folder with the app's `pyproject.toml`.
        scenario: scenario with the fleet, the seed, the stop rules and the eligibility.
        settings: run folder, `runs/APP-SCENARIO-HASH` unless given, and callbacks. When a run is
            resumed, the server app is replayed up to its checkpoint.
        run_config: overrides of the app's configuration, `KEY=VALUE` each.
        shows_log: show Flower's own log lines, too.
        on_client_error: what an exception of the client app is: an error reply, as in Flower, or
            the end of the run.

    Raises:
        ScenarioError: flwr is missing or not tested, or the scenario does not suit an app.
        DataError: the app or a file is wrong, or the app raised an exception.
        SimulationError: an invariant was broken.
    """
    version = versions.require()
    app = read_app(app_folder, run_config)
    if isinstance(scenario.server.interruption, PartialSettings):
        raise ScenarioError(
            "server.interruption.kind = 'partial': a Flower app hands in whole replies alone; use"
            " lose or resume"
        )
    versions.set_task_identity()
    logging.getLogger("flwr").setLevel(logging.INFO if shows_log else logging.WARNING)
    size = scenario.fleet.size
    fleet = build_fleet(
        scenario.fleet,
        seed=scenario.clients_seed,
        num_samples=np.zeros(size, dtype=np.int64),
        files=scenario.files,
    )
    platform = PlatformRecord.of(resolve(torch_device="cpu"), {})
    begins = _manifest_of(app, scenario, version, platform)
    with held_folder(settings, begins, platform, scenario=scenario.to_yaml()) as (folder, manifest):
        if manifest.status == "done":
            return open_run(folder)
        where = folder.absolute()  # the app may leave the current folder
        recorder, state = RunRecorder.resume(
            where, run=manifest.identity, every_rounds=scenario.checkpoint.every_rounds
        )
        if state is not None and not app.settings.keep_replies:
            raise ScenarioError(
                f"{where}: was run with tool.fleetsim.keep_replies = false and cannot be resumed;"
                " run afresh"
            )
        calls = CallRecord(where / FOLDER, is_kept=app.settings.keep_replies)
        with _app_modules(app.folder):
            nodes = ClientNodes(
                app,
                _loaded(app, app.client_app, scenario.seed),
                num_clients=size,
                seed=scenario.seed,
                stops_at_errors=on_client_error == "stop",
                on_note=settings.on_note,
            )
            world = World(fleet, scenario.server.eligibility)
            rounds = RoundsOfMessages(world, recorder, app.settings, settings.on_progress)
            server = MessageServer(scenario, world, nodes, rounds, calls, state)
            grid = flower_grid(server, calls, num_clients=size)
            done = run_recorded(
                partial(_serve, app, server, grid, scenario.seed),
                server,
                recorder,
                Following(recorder, ()),
                folder,
                manifest,
                selector=TRAINER,
            )
        calls.clear()
        return done


@contextmanager
def _app_modules(folder: Path) -> Iterator[None]:
    """Find modules in an app's folder within the block, and forget them for the next run."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file is not None and Path(file).is_relative_to(folder):
                del sys.modules[name]


def _serve(app: App, server: MessageServer, grid: VirtualGrid, seed: int) -> StopReason:
    """Run the server app to its end, or until a stop rule of the scenario holds."""
    records = versions.module("flwr.app", "flwr.common")
    context = records.Context(
        run_id=versions.RUN_ID,
        node_id=versions.SERVER_NODE,
        node_config={},
        state=records.RecordDict(),
        run_config=dict(app.config),
    )
    try:
        with (
            addressed(seed, "flower/server-app", on_cuda=torch.cuda.is_available()),
            on_virtual_clock(grid),
            errors_of_app(app, "the ServerApp"),
        ):
            _loaded(app, app.server_app, seed)(grid, context)
    except RunStopped as stopped:
        return stopped.reason
    if grid.fault is not None:
        raise grid.fault
    server.end()
    return StopReason("app", f"the server app has returned after {server.num_rounds} round(s)")


def _loaded(app: App, reference: str, seed: int) -> Any:
    """Return the object that an app's reference means."""
    module, _, attributes = reference.partition(":")
    with (
        addressed(seed, "flower/import", on_cuda=torch.cuda.is_available()),
        errors_of_app(app, f"{reference}, as it was imported,"),
    ):
        result: Any = importlib.import_module(module)
        for attribute in attributes.split("."):
            result = getattr(result, attribute)
        return result


def _manifest_of(app: App, scenario: Scenario, version: str, platform: PlatformRecord) -> Manifest:
    data = scenario.data()
    world = {key: data[key] for key in ("seed", "fleet", "energy")}
    return begun_manifest(
        scenario,
        platform,
        name=f"{app.name}-{scenario.name}",
        trainer=TRAINER,
        flower=FlowerRecord(
            app=app.name, source_sha256=app.source_sha256, config=app.config, version=version
        ),
        world_hash=overrides.content_hash({**world, "task": TRAINER}),
        versions={**library_versions(), "flwr": version},
        warnings=(WITHOUT_EFFECT,),
    )
