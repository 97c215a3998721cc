"""Function `run` for scripts and notebooks: scenarios in any form, progress, runs that exist.

    run = fleetsim.run("quickstart")
    run = fleetsim.run("quickstart", {"server.selector.kind": "oort"}, stop__rounds=20)
    run = fleetsim.run(scenario, out="runs/mine", exist_ok=True)

`fleetsim.simulate.run` is the plain function behind it, which takes a `Scenario` and shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetsim.host.notebook import interruptible
from fleetsim.host.turns import Environment, as_the_caller, turn
from fleetsim.learning.global_generators import GlobalGenerators
from fleetsim.learning.torch_settings import TorchSettings
from fleetsim.run_settings import described
from fleetsim.scenario import Scenario, load
from fleetsim.schema.python_data import Overrides, changes_of
from fleetsim.trackers.named import names_and_objects, trackers_named
from fleetsim.user import PluginNames, given_plugin, load_plugins

if TYPE_CHECKING:
    from fleetsim.contracts import (
        ClientTraining,
        Loss,
        OwnAggregator,
        Partition,
        Progress,
        Selector,
        Tracker,
    )
    from fleetsim.learning.data.loading import Prefetch
    from fleetsim.record.saved_run import Run


@described
@turn(Environment, GlobalGenerators, TorchSettings)
def run(  # noqa: D417 - others are described by RunSettings
    scenario: str | Path | Mapping[str, Any] | Scenario,
    overrides: Overrides = (),
    *,
    out: str | Path | None = None,
    exist_ok: bool = False,
    seed: int | None = None,
    plugin: PluginNames = None,
    train: bool = True,
    torch_device: str = "cpu",
    workers: int | None = None,
    dask: str | None = None,
    resume: bool = False,
    allow_other_platform: bool = False,
    selector: Selector | None = None,
    aggregator: OwnAggregator | type | None = None,
    partition: Partition | type | Callable[..., Any] | None = None,
    dataset: Any = None,
    local: ClientTraining | type | None = None,
    loss: Loss | type | Callable[[Any, Any], Any] | None = None,
    model: Any = None,
    progress: bool | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    reading: Prefetch | None = None,
    results_cache: str | Path | None = None,
    trackers: Iterable[str | Tracker | type[Tracker]] = (),
    **keys: Any,
) -> Run:
    """Run a scenario into a folder.

    Args:
        scenario: scenario to run: as loaded, a file, a bundled name, or a mapping with its keys.
        overrides: `"KEY.PATH=VALUE"` or a list of them, as of `--set`, or values by key path.
        exist_ok: if the run is there already, in `out` or in `runs/`, it is returned if it is
            complete, and continued if not. A run of another scenario in `out` is refused.
        seed: replaces the scenario's seed.
        plugin: `MODULE:NAME` of a part of your own, or several, as of `--plugin`. They are
            imported.
        resume: as `exist_ok`; `on_note` is told if there was no run, or a complete one.
        aggregator: class or object that replaces the scenario's aggregator. The run works on a copy
            of an object. A class with `Settings` replaces nothing: it adds its `kind`.
        partition: the same for the partition; or a function `split(labels, num_clients,
            generator)`.
        dataset: your own data in any form that `fleetsim.dataset` takes, such as a pair (train,
            test) of torch data sets, or what it returns; or a class, object or function that loads
            them, see docs/own-data.md.
        local: the same for the clients' own training.
        loss: the same for the loss that clients minimise; or a function `losses(outputs, labels)`,
            such as `torch.nn.CrossEntropyLoss(reduction="none")`.
        model: the same for the network: a class, a function or an object of `torch.nn.Module`. An
            object brings its weights; they are not recorded.
        progress: show the progress in the notebook, or on stderr. None: where a person sees it, in
            a notebook or on a terminal, unless there is a callback.
        trackers: trackers, told of every round: objects or classes, or `tensorboard`, `mlflow`,
            `wandb`, each with `=DIR` if need be.
        keys: further overrides, with two underscores for the dot: `stop__rounds=5`.

    Raises:
        ScenarioError: the scenario is wrong, or cannot be run with these arguments.
        DataError: a file is missing or wrong, or the folder is taken or cannot be written.
        SimulationError: an invariant was broken; all that was recorded is in the folder.
        TrainingError: a training process failed or was killed; the run can be resumed.
        KeyboardInterrupt: interrupted; the run can be resumed, and a note names the folder.
        Terminated: the same by SIGTERM, in the main thread of a program that does not handle it.
        TypeError: a keyword is no argument and names no key of a scenario.
    """
    changes = changes_of(overrides, keys, keys=Scenario.model_fields, call=run)
    if on_progress is not None:
        on_progress = as_the_caller()(on_progress)
    if on_note is not None:
        on_note = as_the_caller()(on_note)
    given = {
        "selector": selector,
        "aggregator": aggregator,
        "partition": partition,
        "dataset": dataset,
        "local": local,
        "loss": loss,
        "model": model,
    }
    parts = [given_plugin(kind, part) for kind, part in given.items() if part is not None]
    named, user_trackers = names_and_objects(trackers)
    plugins = [
        *load_plugins(plugin),
        *parts,
        *(given_plugin("tracker", one) for one in user_trackers),
    ]
    followers = trackers_named(named)
    loaded = load(scenario, changes, seed=seed, plugin=plugins)
    # Imported here: `help(fleetsim)` and a faulty scenario must not wait for torch.
    from fleetsim import simulate  # noqa: PLC0415
    from fleetsim.progress import watch_from_python  # noqa: PLC0415
    from fleetsim.record.run_folder import RunExistsError  # noqa: PLC0415

    is_shown = on_progress is None if progress is None else progress
    with (
        interruptible("exist_ok=True continues it"),
        watch_from_python(loaded, is_forced=progress is True, is_shown=is_shown) as show,
    ):

        def tell(state: Progress) -> None:
            show(state)
            if on_progress is not None:
                on_progress(state)

        try:
            return simulate.run(
                loaded,
                out=out,
                train=train,
                torch_device=torch_device,
                workers=workers,
                dask=dask,
                resume=resume or exist_ok,
                allow_other_platform=allow_other_platform,
                on_progress=tell,
                on_note=on_note if resume or not exist_ok else None,
                reading=reading,
                results_cache=results_cache,
                trackers=followers,
            )
        except RunExistsError as fault:
            message = str(fault).partition("; ")[0]
            does = "continues" if message.endswith("unfinished run") else "returns"
            raise RunExistsError(
                f"{message}; exist_ok=True {does} it; or delete it, or give another out"
            ) from None
