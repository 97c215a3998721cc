"""The verbs `validate`, `plugin check` and `world validate`: checks without a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fleetsim.cli.scenario_options import ScenarioName, changes, load
from fleetsim.cli.terminal import console, output, output_json, say
from fleetsim.errors import DataError, FaultsError
from fleetsim.host import paths
from fleetsim.quoting import one_line

if TYPE_CHECKING:
    from fleetsim.scenario import Scenario
    from fleetsim.scenario.shortest_tasks import TaskSize


def validate(
    scenario: ScenarioName,
    *,
    seed: int | None = None,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    plugin: list[str] | None = None,
    full: bool = False,
    as_json: bool = False,
    quiet: bool = False,
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
    from fleetsim.learning.data.built_in import BlankSettings
    from fleetsim.learning.data.loading import load_dataset
    from fleetsim.scenario import samples_of

    dataset, seed = loaded.task.dataset, loaded.clients_seed
    size, tried = _tried(loaded, warnings)
    # Other data sets have checksums; the user's own files are read and split.
    if size is None and not isinstance(dataset, BlankSettings) and dataset.has_user_files:
        samples_of(loaded, load_dataset(dataset, seed=seed, num_clients=loaded.fleet.size))
    if size is None or loaded.server.deadline_s is None:
        load_trace(loaded.fleet.usage, seed=seed)
        loaded.fleet.channel.build(seed=seed, is_wired=np.zeros(1, dtype=np.bool_), radio=None)
    else:
        from fleetsim.scenario.shortest_tasks import deadline_fault

        # It builds the fleet, whose trace and channel need no second reading.
        unmet = deadline_fault(loaded, size)
        warnings += [] if unmet is None else [unmet]
    for line in warnings:
        say(f"warning: {line}")
    return tried


def _tried(scenario: Scenario, warnings: list[str]) -> tuple[TaskSize | None, list[str]]:
    """Return the size of the tasks where it tells something, and lines on the user's own network.

    The task is prepared for a network or loss of the user's own, which has a trainer and weights to
    tell of, and where there is a deadline. None as well if the data are not here.
    """
    from fleetsim.learning.data.built_in import BlankSettings
    from fleetsim.learning.models.model_kind import UserModelKind

    task = scenario.task
    model: object = task.model  # a plug-in extends the kinds that are known here
    is_blank = isinstance(task.dataset, BlankSettings)
    has_user_code = (isinstance(model, UserModelKind) or task.local.has_other_loss) and not is_blank
    if not has_user_code and scenario.server.deadline_s is None:
        return None, []
    from fleetsim.scenario.shortest_tasks import TaskSize

    try:
        if not has_user_code and (known := _known_size(scenario)) is not None:
            return known, []
        from fleetsim.simulate.built_parts import task_request
        from fleetsim.training.preparation import prepare_task

        prepared = prepare_task(
            task_request(scenario), train=has_user_code, torch_device="cpu", workers=1
        )
    except DataError as missing:
        if not isinstance(task.dataset, BlankSettings) and task.dataset.has_user_files:
            raise
        message = f"trainer chosen by the form of the samples, and {missing}"
        return None, [message] if has_user_code else []
    samples, upload_byte = prepared.samples, prepared.upload_byte(scenario.server.compression)
    size = TaskSize(samples.num_samples, samples.owners, prepared.cost, upload_byte)
    if not has_user_code:
        return size, []
    from fleetsim.scenario import transformer_warning

    if (slow := transformer_warning(scenario, prepared.cost)) is not None:
        warnings.append(slow)
    weights = [] if prepared.weights_text is None else [prepared.weights_text]
    return size, [f"{prepared.trainer_text}, on the CPU", *weights]


def _known_size(scenario: Scenario) -> TaskSize | None:
    """Return the size of tasks whose model needs no torch to tell its cost; None of others.

    None as well where preparing the task finds a fault, or the clients' training is another.
    """
    from fleetsim.contracts import SampleForm
    from fleetsim.learning.data.built_in import BlankSettings
    from fleetsim.learning.data.loading import load_dataset
    from fleetsim.learning.models.model_kind import MAX_PARAMETERS
    from fleetsim.learning.models.settings import ChainKind
    from fleetsim.scenario import samples_of
    from fleetsim.scenario.shortest_tasks import TaskSize

    task = scenario.task
    local, model = task.local, task.model
    if isinstance(task.dataset, BlankSettings) or not isinstance(model, ChainKind):
        return None
    dataset = load_dataset(
        task.dataset, seed=scenario.clients_seed, num_clients=scenario.fleet.size
    )
    form = SampleForm(dataset.sample_shape, dataset.num_classes, dataset.vocabulary_size)
    cost = model.chain_cost(form)
    if (
        not model.fits(form)
        or dataset.train_labels.ndim > 1
        or cost.num_parameters > MAX_PARAMETERS
        or local.augmentation.fault(form.input_shape, are_numbers=form.vocabulary_size is None)
        or local.algorithm.build() is not None
    ):
        return None
    clients = samples_of(scenario, dataset)
    import numpy as np

    num_samples = np.array([share.size for share in clients.training], dtype=np.int64)
    upload_byte = scenario.server.compression.num_byte(cost.num_parameters)
    return TaskSize(num_samples, clients.owners, cost, upload_byte)


def check_plugin(plugin: str, *, set_: list[str] | None = None) -> None:
    """Check that a plug-in keeps the contract of its kind, without a run."""
    from fleetsim.user import KINDS
    from fleetsim.user.check import check_plugin as check

    notes: list[str] = []
    kind = check(plugin, settings=set_ or (), on_note=notes.append)
    output("\n".join([*notes, f"conforms: {plugin} is {KINDS[kind].noun}"]))


def validate_world(*, out: Path = Path("validation")) -> None:
    """Compare the models with measurements and theory; half a minute.

    Writes validation.md with all verdicts, and pages on devices, memory, radios, transfers and
    traces, with errors and sources. Published traces are checked if they are below $FLEETSIM_DATA.
    """
    from fleetsim.progress import bar
    from fleetsim.validation.page import SECTION_MAKERS, write

    sections = {}
    with bar("", console, total=len(SECTION_MAKERS)) as update:
        for number, (name, make) in enumerate(SECTION_MAKERS.items()):
            update(number, name)
            sections[name] = make()
    output(write(sections, paths.local(out)))
