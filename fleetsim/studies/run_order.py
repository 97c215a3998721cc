"""Orders of runs, which travel to the processes and machines that carry them out.

An order holds plain text and bytes alone: the resolved scenario, the source of a plug-in, and the
user's own files that the scenario names.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetsim.contracts import Progress
from fleetsim.errors import DataError
from fleetsim.host.plugin_sources import PluginSource, place_plugin, source_of
from fleetsim.host.turns import Environment, turn
from fleetsim.record import atomic_files
from fleetsim.record.manifest import MANIFEST, read_manifest, versions, write_manifest
from fleetsim.record.resumption import OtherPlatformError
from fleetsim.record.run_folder import SCENARIO, clear, locked
from fleetsim.record.saved_run import Run
from fleetsim.scenario import Scenario, from_document
from fleetsim.scenario.named_files import carried_digests
from fleetsim.schema import strict_yaml
from fleetsim.studies.inputs import Input, inputs, placed
from fleetsim.studies.planned_run import PlannedRun, require_planned
from fleetsim.user import load_plugins

_RETURNED = (SCENARIO, "rounds.parquet", "tasks.parquet", "clients.parquet", MANIFEST)
"""Files of a finished run that come back; the manifest, which declares it done, is the last."""


@dataclass(frozen=True, slots=True)
class RunOrder:
    """One run to carry out."""

    key: str
    name: str
    scenario: str
    """Resolved scenario as YAML."""
    train: bool
    plugins: tuple[PluginSource, ...] = ()
    inputs: tuple[Input, ...] = ()
    """The user's own files; empty for a process on the same machine."""
    results_cache: str | None = None
    """Folder of results of training on this machine."""


def order_of(planned: PlannedRun, *, travels: bool, results_cache: Path | None = None) -> RunOrder:
    """Return the order of a run; with the user's own files if it travels to another machine."""
    scenario = planned.scenario
    names = [f"{plugin.kind.name}={plugin.name}" for plugin in scenario.plugins]
    return RunOrder(
        key=planned.key,
        name=planned.name,
        scenario=scenario.to_yaml(),
        train=planned.train,
        plugins=tuple(map(source_of, names)),
        inputs=inputs(scenario.data()) if travels else (),
        results_cache=None if travels or results_cache is None else str(results_cache),
    )


def carry_out(
    order: RunOrder, folder: Path, *, on_progress: Callable[[Scenario, Progress], None]
) -> Run:
    """Run an order into a folder, or continue the run that is there.

    One that began with another version or on another platform begins anew: no run is a mixture.
    """
    # Imported here: it loads torch, which plans and reports of studies do not need.
    from fleetsim.simulate import run  # noqa: PLC0415

    # Imported plug-ins belong to the whole process, too.
    with turn(Environment), tempfile.TemporaryDirectory(prefix="fleetsim-") as home:
        scenario = _scenario(order, Path(home))
        atomic_files.make_folder(folder.parent, hint="choose another place with --home")

        def into_folder() -> Run:
            return run(
                scenario,
                out=folder,
                train=order.train,
                workers=1,
                resume=True,
                run_key=order.key,
                results_cache=order.results_cache,
                on_progress=lambda progress: on_progress(scenario, progress),
            )

        if (folder / MANIFEST).is_file():
            begun = read_manifest(folder)
            if begun.status != "done" and begun.versions.get("fleetsim") != versions()["fleetsim"]:
                clear(folder)
        try:
            return into_folder()
        except OtherPlatformError:
            clear(folder)
            return into_folder()


def carry_out_and_return(
    order: RunOrder,
    on_progress: Callable[[Scenario, Progress], None] = lambda scenario, progress: None,
) -> dict[str, bytes]:
    """Run an order in a temporary folder; return the files of the finished run by name."""
    with tempfile.TemporaryDirectory(prefix="fleetsim-run-") as home:
        run = carry_out(order, Path(home) / "run", on_progress=on_progress)
        return {name: (run.folder / name).read_bytes() for name in _RETURNED}


def receive(files: Mapping[str, bytes], planned: PlannedRun, folder: Path) -> None:
    """Write the files of a finished run into its folder, and check them.

    Scenario and hashes become those of this machine, where the user's own files have other paths. A
    run that another process has completed in the meantime is kept.
    """
    if set(files) != set(_RETURNED):
        raise DataError(f"{folder}: an executor returned other files than those of a run")
    atomic_files.make_folder(folder, hint="choose another place with --home")
    with locked(folder):
        if not ((folder / MANIFEST).is_file() and read_manifest(folder).status == "done"):
            _write(files, planned, folder)


def _write(files: Mapping[str, bytes], planned: PlannedRun, folder: Path) -> None:
    """Write the files of a run once they are known to be whole: none is there before."""
    with tempfile.TemporaryDirectory(prefix="fleetsim-") as home:
        checked = Path(home)
        for name in _RETURNED:
            (checked / name).write_bytes(files[name])
        (checked / SCENARIO).write_text(planned.scenario.to_yaml(), encoding="utf-8")
        hashes = {
            "scenario_hash": planned.scenario.content_hash,
            "world_hash": planned.scenario.world_hash,
            "input_sha256": carried_digests(planned.scenario.data()),
        }
        manifest = read_manifest(checked).model_copy(update=hashes)
        require_planned(checked, manifest, planned)
        Run(checked, manifest).require_unchanged()
        for name in _RETURNED:
            if name != MANIFEST:
                atomic_files.write(folder / name, (checked / name).read_bytes())
    write_manifest(folder, manifest)


def _scenario(order: RunOrder, home: Path) -> Scenario:
    """Load the scenario of an order; files that have travelled go to `home`."""
    document = strict_yaml.parse(order.scenario, f"scenario of {order.name}")
    data = placed(document.data, order.inputs, home) if order.inputs else document.data
    document = strict_yaml.Document(data, document.source)
    by_module = {plugin.module: plugin for plugin in order.plugins}
    for plugin in by_module.values():
        place_plugin(plugin)
    return from_document(document, load_plugins([plugin.name for plugin in order.plugins]))
