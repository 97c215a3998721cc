"""Loading of a scenario: read, override, check, and resolve to absolute paths."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from fleetsim import bundled
from fleetsim.contracts import Evaluation, FleetView
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.host import memory
from fleetsim.host.user_code import user_code
from fleetsim.learning.data.folder import FolderSettings
from fleetsim.quoting import MAX_LINES, listed, quoted
from fleetsim.scenario import named_files
from fleetsim.scenario.contradictions import contradictions, without_wifi
from fleetsim.scenario.inert_keys import ScenarioFacts, inert_keys
from fleetsim.scenario.samples import too_few_samples
from fleetsim.scenario.settings import BufferedServerSettings, Scenario, class_with
from fleetsim.schema import faults, strict_yaml
from fleetsim.schema import overrides as overriding
from fleetsim.schema.faults import Fault
from fleetsim.schema.python_data import Overrides, changes_of, document_of
from fleetsim.schema.strict_yaml import Document, KeyPath
from fleetsim.units import BYTE_PER_GIB
from fleetsim.user import Plugin, PluginNames, load_plugins
from fleetsim.user.loading import refuse_missing, refuse_others, refuse_two

LEAST_BYTE_PER_CLIENT = 350
"""Lower bound of the peak memory of a run, for each client of the fleet.

The peak traced memory of a run without training grew by 378 to 403 bytes per client (phones with
people; phones and servers without). This bound is lower, so that no run is refused that fits.
"""


def load(
    path: str | Path | Mapping[str, Any] | Scenario,
    overrides: Overrides = (),
    *,
    seed: int | None = None,
    plugin: PluginNames = None,
    **keys: Any,
) -> Scenario:
    """Read and check a scenario.

    Args:
        path: a file, the name of a bundled scenario, a mapping with its keys, or a scenario to
            change.
        overrides: `"KEY.PATH=VALUE"` or a list of them, as of `--set`, or values by key path. They
            are applied in order.
        seed: replaces the scenario's seed.
        plugin: `MODULE:NAME` of a part of your own, or several, see `fleetsim.user`. They are
            imported.
        keys: further overrides, with two underscores for the dot: `stop__rounds=5`.

    Raises:
        ScenarioError: one line per fault: place, key, value, what is allowed.
        DataError: a device, radio or trace file that it names is wrong.
        TypeError: a keyword is no argument and names no key.
    """
    changes = changes_of(overrides, keys, keys=Scenario.model_fields, call=load)
    if seed is not None:
        changes.append(f"seed={seed}")
    plugins = load_plugins(plugin)
    if isinstance(path, Scenario):
        if not changes and not plugins:
            return path
        document = document_of(path.data(), f"scenario {path.name}")
        return from_document(overriding.apply(document, changes), path.plugins_with(plugins))
    if isinstance(path, Mapping):
        document = document_of(path, "scenario")
    else:
        name = str(path)
        file = named_files.find("scenarios", name, None)
        if file is None:
            raise ScenarioError(f"scenario {quoted(name)}: {bundled.not_found('scenarios', name)}")
        document = strict_yaml.read(file)
    document = overriding.apply(document, changes)
    refuse_others(document, plugins)
    return from_document(document, plugins)


def from_document(document: Document, plugins: Sequence[Plugin]) -> Scenario:
    """Check a scenario that has been read, with its plug-ins if it has any; raises as `load`."""
    refuse_two(plugins)
    for plugin in plugins:
        document = plugin.placed(document)
    refuse_missing(document, plugins)
    with _settings_of(plugins):
        scenario = faults.check(class_with(plugins), _with_usual_kinds(document))
    files = HardwareFiles(document.folder)
    problems = contradictions(scenario)
    problems += named_files.missing(scenario.fleet, files)
    dataset = scenario.task.dataset
    problems += named_files.unusable_folder(getattr(dataset, "folder", None), document.folder)
    problems += [] if problems else without_wifi(scenario, files)
    problems += named_files.missing_weights(scenario.server.selector, document.folder)
    if isinstance(dataset, FolderSettings) and not problems:
        home = named_files.user_folder(dataset.folder, document.folder)
        problems += too_few_samples(scenario, user_folder=home)
    if problems:
        raise ScenarioError(*_lines(document, problems))
    _require_memory(scenario, document)
    # With absolute paths the user's files are problems from any folder.
    with _settings_of(plugins):
        data = named_files.with_absolute_paths(scenario.data(), document.folder)
    try:
        strict_yaml.dump(data)
    except ValueError as cause:
        raise ScenarioError(
            f"{document.source}: with its defaults it {cause}; name fewer clients or devices"
        ) from None
    with _settings_of(plugins):
        resolved = type(scenario).model_validate(data)
    resolved._files = files
    _set_selector_up(resolved, document)
    _look_for_inert_keys(resolved, document)
    return resolved


def _require_memory(scenario: Scenario, document: Document) -> None:
    size, usable = scenario.fleet.size, memory.usable_byte()
    if usable is not None and size * LEAST_BYTE_PER_CLIENT > usable:
        message = (
            f"takes at least {size * LEAST_BYTE_PER_CLIENT / BYTE_PER_GIB:.0f} GiB of memory, of"
            f" which there are {usable / BYTE_PER_GIB:.1f}; lower it to"
            f" {usable // LEAST_BYTE_PER_CLIENT} or less, or take a larger machine"
        )
        raise ScenarioError(faults.line(document, ("fleet", "size"), message))


def _settings_of(plugins: Sequence[Plugin]) -> AbstractContextManager[None]:
    """Return a context for checks of settings, which may be a user's."""
    names = ", ".join(plugin.label for plugin in plugins if not plugin.replaces_any)
    return user_code(f"{names}: its Settings") if names else nullcontext()


def _look_for_inert_keys(scenario: Scenario, document: Document) -> None:
    inert = list(inert_keys(scenario, document.data, ScenarioFacts(scenario)))
    refused = [(each.key_path, each.message) for each in inert if each.is_refused]
    if refused:
        raise ScenarioError(*_lines(document, refused))
    scenario._inert = tuple(_lines(document, [(each.key_path, each.message) for each in inert]))


def _lines(document: Document, problems: Sequence[Fault]) -> list[str]:
    lines = [faults.line(document, key, message) for key, message in problems[:MAX_LINES]]
    return listed(lines, num_unsaid=len(problems) - len(lines))


def schema(plugin: PluginNames = None) -> dict[str, Any]:
    """Return the JSON Schema of a scenario, for editors; with the kinds of plug-ins."""
    schema = class_with(load_plugins(plugin)).model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "fleetsim scenario"
    return schema


def _with_usual_kinds(document: Document) -> Document:
    """Return the document with a server mode and a kind of optimizer, if it leaves them out."""
    data = _with_usual(document.data, ("server",), "mode", "synchronous")
    data = _with_usual(data, ("task", "local", "optimizer"), "kind", "sgd")
    return document if data is document.data else dataclasses.replace(document, data=data)


def _with_usual(data: Any, key_path: KeyPath, key: str, usual: str) -> Any:
    if not isinstance(data, dict):
        return data
    if not key_path:
        return data if key in data else {key: usual, **data}
    first, *rest = key_path
    within = _with_usual(data.get(first), tuple(rest), key, usual)
    return data if within is data.get(first) else {**data, first: within}


def _set_selector_up(scenario: Scenario, document: Document) -> None:
    """Set the selector up without data, model and places; a plug-in's set-up may need them."""
    if scenario.selector_plugin is not None:
        return
    server, local = scenario.server, scenario.task.local
    cohort = server.concurrency if isinstance(server, BufferedServerSettings) else server.cohort
    try:
        server.selector.build().setup(
            FleetView(
                seed=scenario.seed,
                # One number seen N times, which takes the memory of one.
                num_samples=np.broadcast_to(np.int64(1), scenario.fleet.size),
                cohort=cohort,
                epochs=local.epochs or 0,
                steps=local.steps,
                batch_size=local.batch_size,
                last_batch=local.last_batch,
                learning_rate=local.optimizer.learning_rate_at(1),
                planned_rounds=scenario.stop.rounds,
                parameters=np.zeros(1, dtype=np.float32),
                validation=Evaluation(accuracy=None, loss=None)
                if scenario.evaluate.validation_fraction > 0.0
                else None,
                clients_hash=scenario.clients_hash,
            )
        )
    except ScenarioError as fault:
        place = document.where(("server", "selector"))
        raise ScenarioError(*(f"{place}: {line}" for line in fault.faults)) from None
