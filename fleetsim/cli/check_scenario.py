"""The verbs `validate`, `plugin check` and `world validate`: checks without a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetsim.cli.scenario_options import (
    JsonOption,
    PluginOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    UnsetOption,
    changes,
    load,
)
from fleetsim.cli.terminal import console, output, output_json, say
from fleetsim.errors import DataError, FaultsError
from fleetsim.host import paths
from fleetsim.quoting import one_line

if TYPE_CHECKING:
    from fleetsim.scenario import Scenario
    from fleetsim.training.prepared_task import PreparedTask


def validate(
    scenario: ScenarioArgument,
    seed: SeedOption = None,
    set_: SetOption = None,
    unset: UnsetOption = None,
    plugin: PluginOption = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print the whole scenario as YAML, with every default.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check a scenario without running it, and say line by line what it asks for.

    A network or loss of your own is tried on the data set, and a line names its trainer. Another
    says how many bytes of a network are trained, frozen and buffers.
    """
    warnings: list[str] = []
    try:
        loaded = load(scenario, changes(set_, unset), seed, plugin)
        tried = _checked(loaded, warnings)
    except FaultsError as fault:
        if as_json:
            output_json({"valid": False, "errors": fault.faults})
        raise
    from fleetsim.scenario import outline, scenario_warnings

    parts = outline(loaded)
    if as_json:
        record = {
            "valid": True,
            "errors": (),
            "warnings": [*scenario_warnings(loaded), *warnings],
            "name": loaded.name,
            "seed": loaded.seed,
            "scenario_hash": loaded.content_hash,
            "clients": loaded.fleet.size,
            "outline": {**parts, "trainer": "; ".join(tried) or None},
        }
        output_json(record | ({"scenario": loaded.data()} if full else {}))
    elif full and not quiet:
        output(loaded.to_yaml(), ends_line=False)
    elif not quiet:
        width = max(map(len, parts)) + 2
        pairs = [*parts.items(), *(line.split(None, 1) for line in tried)]
        lines = [f"{label:<{width}}{part}" for label, part in pairs]
        output("\n".join(map(one_line, [f"valid: {loaded.name}", *lines])))


def _checked(loaded: Scenario, warnings: list[str]) -> list[str]:
    """Check a scenario further, print and add warnings; return lines on the user's own network."""
    loaded.build_selector()
    loaded.check_plugins()
    import numpy as np

    from fleetsim.fleet.usage.loading import load_trace
    from fleetsim.learning.data.blank import BlankSettings
    from fleetsim.learning.data.loading import load_dataset
    from fleetsim.scenario import samples_of

    dataset, seed = loaded.task.dataset, loaded.clients_seed
    prepared, tried = _tried(loaded, warnings)
    # Other data sets have checksums; the user's own files are read and split.
    if prepared is None and not isinstance(dataset, BlankSettings) and dataset.has_user_files:
        samples_of(loaded, load_dataset(dataset, seed=seed, num_clients=loaded.fleet.size))
    if prepared is None or loaded.server.deadline_s is None:
        load_trace(loaded.fleet.usage, seed=seed)
        loaded.fleet.channel.build(seed=seed, is_wired=np.zeros(1, dtype=np.bool_))
    else:
        from fleetsim.simulate.shortest_tasks import deadline_fault

        # It builds the fleet, whose trace and channel need no second reading.
        unmet = deadline_fault(loaded, prepared)
        warnings += [] if unmet is None else [unmet]
    for line in warnings:
        say(f"warning: {line}")
    return tried


def _tried(scenario: Scenario, warnings: list[str]) -> tuple[PreparedTask | None, list[str]]:
    """Return the prepared task where it tells something, and what it tells of the user's own.

    It does for a network or loss of the user's own, with its trainer and weights, and where there
    is a deadline. None as well if the data are not here.
    """
    from fleetsim.learning.data.blank import BlankSettings
    from fleetsim.learning.models.user_model_kind import UserModelKind

    task = scenario.task
    model: object = task.model  # a plug-in extends the kinds that are known here
    is_blank = isinstance(task.dataset, BlankSettings)
    has_user_code = (isinstance(model, UserModelKind) or task.local.has_other_loss) and not is_blank
    if not has_user_code and scenario.server.deadline_s is None:
        return None, []
    from fleetsim.scenario import transformer_warning
    from fleetsim.simulate.built_parts import task_request
    from fleetsim.training.preparation import prepare_task

    try:
        prepared = prepare_task(
            task_request(scenario), train=has_user_code, torch_device="cpu", workers=1
        )
    except DataError as missing:
        if not isinstance(task.dataset, BlankSettings) and task.dataset.has_user_files:
            raise
        message = f"trainer chosen by the form of the samples, and {missing}"
        return None, [message] if has_user_code else []
    if not has_user_code:
        return prepared, []
    if (slow := transformer_warning(scenario, prepared.cost)) is not None:
        warnings.append(slow)
    weights = [] if prepared.weights_text is None else [prepared.weights_text]
    return prepared, [f"{prepared.trainer_text}, on the CPU", *weights]


def check_plugin(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="A part of your own, importable from here; KIND=MODULE:NAME where its class does"
            " not tell its kind.",
        ),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A key of its Settings; may be given many times."
        ),
    ] = None,
) -> None:
    """Check that a plug-in keeps the contract of its kind, without a run."""
    from fleetsim.user import KINDS
    from fleetsim.user.check import check_plugin as check

    notes: list[str] = []
    kind = check(plugin, settings=set_ or (), on_note=notes.append)
    output("\n".join([*notes, f"conforms: {plugin} is {KINDS[kind].noun}"]))


def validate_world(
    out: Annotated[Path, typer.Option(help="Folder for the page and its figures.")] = Path(
        "validation"
    ),
) -> None:
    """Compare the models with measurements and theory; half a minute.

    Writes validation.md and figures: device times, memory, heat, fading, queues and traces, with
    errors and sources. Published traces are checked if they are below $FLEETSIM_DATA.
    """
    from fleetsim.progress import bar
    from fleetsim.validation.page import SECTION_MAKERS, write

    sections = []
    with bar("", console, total=len(SECTION_MAKERS)) as update:
        for number, (name, make) in enumerate(SECTION_MAKERS.items()):
            update(number, name)
            sections.append(make())
    output(write(sections, paths.local(out)))
