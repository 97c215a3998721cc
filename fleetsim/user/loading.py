"""Kinds of plug-ins, and their loading: import by name, or wrapping of what Python gives.

A class with its own `Settings` adds its kind to those of fleetsim and is made as `CLASS(settings)`.
A class without is made as `CLASS()` and replaces the scenario's part; the resolved scenario then
has `kind: MODULE:CLASS`.

The class of the whole scenario is made anew with more members in some unions (`extended`), so that
checks, messages, schema and the resolved scenario treat a plug-in as any other kind.
"""

import copy
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from fleetsim.errors import PluginError, ScenarioError
from fleetsim.host.user_code import user_code
from fleetsim.quoting import quoted
from fleetsim.schema import faults
from fleetsim.schema.field_docstrings import description
from fleetsim.schema.spelling import did_you_mean
from fleetsim.schema.strict_yaml import Document, KeyPath, spelled
from fleetsim.settings import Settings
from fleetsim.user.parts.aggregators import AggregatorPlugins
from fleetsim.user.parts.client_trainings import ClientTrainingPlugins
from fleetsim.user.parts.datasets import DatasetPlugins
from fleetsim.user.parts.models import LossPlugins, ModelPlugins
from fleetsim.user.parts.partitions import PartitionPlugins
from fleetsim.user.parts.selectors import SelectorPlugins
from fleetsim.user.parts.trackers import TrackerPlugins
from fleetsim.user.plugin import Plugin, PluginKind, name_of, source_sha256, value_at, version_of
from fleetsim.user.watched_calls import refused

S = TypeVar("S", bound=Settings)


def extended(model: type[S], added: Mapping[KeyPath, Sequence[type[Settings]]]) -> type[S]:
    """Return a subclass whose mappings at some key paths may also be of added classes.

    Every mapping on the way, in each of its forms, is extended alike. A form that lacks the next
    key stays as it is.
    """
    by_key: dict[str, dict[KeyPath, Sequence[type[Settings]]]] = {}
    for (key, *below), classes in added.items():
        by_key.setdefault(str(key), {})[tuple(below)] = classes
    fields: dict[str, Any] = {}
    for key, below_key in by_key.items():
        info = model.model_fields.get(key)
        if info is None:
            continue
        members: list[Any] = list(get_args(info.annotation)) or [info.annotation]
        deeper = {path: classes for path, classes in below_key.items() if path}
        if deeper:
            members = [extended(member, deeper) for member in members]
        members += below_key.get((), ())
        union: Any = Union  # of types that are known only now
        fields[key] = (
            union[tuple(members)],
            _field(info, description(model, key), is_union=len(members) > 1),
        )
    return create_model(
        model.__name__,
        __base__=model,
        __doc__=model.__doc__,
        **fields,
    )


def _field(info: FieldInfo, about: str | None, *, is_union: bool) -> Any:
    """Return a described field with the default of another; unions have `kind`."""
    discriminator = info.discriminator or ("kind" if is_union else None)
    options: dict[str, Any] = {"description": about, "discriminator": discriminator}
    if info.default_factory is not None:
        return Field(default_factory=info.default_factory, **options)
    return Field(... if info.is_required() else info.default, **options)


KINDS: Mapping[str, type[PluginKind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            SelectorPlugins,
            AggregatorPlugins,
            PartitionPlugins,
            DatasetPlugins,
            TrackerPlugins,
            ClientTrainingPlugins,
            LossPlugins,
            ModelPlugins,
        )
    }
)
"""Every kind, in the order of the scenario's readers: who, how, on what."""


def kind_named(word: str, label: str) -> type[PluginKind]:
    """Return the kind of a name."""
    if word not in KINDS:
        message = f"{quoted(word)} is no kind of plug-in; {', '.join(KINDS)} are"
        raise refused(label, f"{message}{did_you_mean(word, KINDS)}")
    return KINDS[word]


def kind_of(cls: object, label: str, name: str) -> type[PluginKind]:
    """Return the only kind that claims a class."""
    claiming = [kind for kind in KINDS.values() if kind.claims(cls)]
    if len(claiming) == 1:
        return claiming[0]
    if claiming:
        kinds = " and ".join(kind.noun for kind in claiming)
        message = f"has methods of {kinds}; say which it is: --plugin {claiming[0].name}={name}"
        raise refused(label, message)
    each = ", ".join(f"{kind.name} ({', '.join(sorted(kind.marks))})" for kind in KINDS.values())
    message = (
        f"has no method by which a kind is known: {each}; write one, or say the kind: --plugin"
    )
    raise refused(label, f"{message} KIND={name}")


PluginNames = str | Plugin | Sequence[str | Plugin] | None
"""Plug-ins as `MODULE:NAME` or `KIND=MODULE:NAME`, one or several, loaded or not."""


_IDENTITY = ("name", "word", "replaces_any", "source_sha256", "version")
_ENVIRONMENT: dict[str, dict[str, str]] = {}
"""Environment variables that modules of plug-ins have set as they were imported, by module."""


def load_plugins(named: PluginNames) -> tuple[Plugin, ...]:
    """Load several plug-ins, in order; raises as `load_plugin`."""
    each = [named] if isinstance(named, str | Plugin) else named or ()
    return tuple(load_plugin(one) if isinstance(one, str) else one for one in each)


def load_plugin(name: str) -> Plugin:
    """Import the module of `MODULE:NAME` or `KIND=MODULE:NAME`; return the class as a plug-in."""
    label = f"--plugin {name}"
    word, has_kind, plain = name.rpartition("=")
    kind = kind_named(word, label) if has_kind else None
    module_name, _, attribute = plain.partition(":")
    is_word = all(part.isidentifier() for part in (*module_name.split("."), attribute))
    if not is_word or module_name.endswith(".py"):
        message = "must be MODULE:CLASS, such as mine:Mine for class Mine of mine.py"
        raise refused(label, message)
    module = _imported(module_name, label)
    definition = vars(module).get(attribute)
    is_function = inspect.isfunction(definition) and (kind is None or kind.takes_functions)
    if not isinstance(definition, type) and not is_function:
        message = "has no class" if definition is None else "means no class by"
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        place = getattr(module, "__file__", None) or module_name
        hint = did_you_mean(attribute, classes)
        raise refused(label, f"{place} {message} {quoted(attribute)}{hint}")
    return of_class_or_function(kind, definition, plain, label)


def given_plugin(word: str, given: Any) -> Plugin:
    """Return the plug-in of an object, class or function that Python gives for a kind."""
    kind = KINDS[word]
    is_function = inspect.isfunction(given)
    if isinstance(given, type) and not kind.takes_classes:
        raise ScenarioError(f"{word}: is the class {given.__name__}; give an object of it")
    if is_function and not kind.takes_functions:
        raise ScenarioError(f"{word}: is the function {given.__name__}; give {kind.noun}")
    if isinstance(given, type) or is_function:
        name = name_of(given)
        return of_class_or_function(kind, given, name, f"{word} {name}")
    part, name, definition = kind.of_object(given)
    label = f"{word} {name}"

    def make(settings: Settings) -> object:
        return copy.deepcopy(part) if kind.copies_objects else part

    return wrapped(kind, definition, name, label, make)


def refuse_missing(document: Document, plugins: Sequence[Plugin]) -> None:
    """Refuse a scenario that asks for a plug-in that was not given; import nothing."""
    known = {(plugin.kind.name, plugin.word) for plugin in plugins}
    for kind in KINDS.values():
        if kind.key_path is None:
            continue
        key = (*kind.key_path, "kind")
        word = value_at(document, key)
        if isinstance(word, str) and ":" in word and (kind.name, word) not in known:
            message = f"is no {kind.name} of fleetsim's; {kind.hint(word)}"
            raise ScenarioError(faults.line(document, key, message))


def refuse_others(document: Document, plugins: Sequence[Plugin]) -> None:
    """Refuse a plug-in in the place of another that the document names, such as a misspelt one."""
    for plugin in plugins:
        place = plugin.kind.key_path
        if place is None or plugin.is_named_in(document):
            continue
        word = value_at(document, (*place, "kind"))
        if isinstance(word, str) and ":" in word:
            key = (*place, "kind")
            message = (
                f"is another {plugin.kind.name} than {plugin.label}; name the same one in both, as"
                f" by --set {spelled(key)}={plugin.word}"
            )
            raise ScenarioError(faults.line(document, key, message))


def refuse_two(plugins: Sequence[Plugin]) -> None:
    """Refuse two plug-ins that replace the same part."""
    by_place: dict[tuple[str, str], Plugin] = {}
    for plugin in plugins:
        if plugin.kind.key_path is None:
            continue
        place = (plugin.kind.name, "" if plugin.replaces_any else plugin.word)
        other = by_place.setdefault(place, plugin)
        if other is not plugin:
            message = f"and {other.label} are both the {spelled(plugin.kind.key_path)}"
            raise ScenarioError(f"{plugin.label} {message}; leave out one of the two")


def of_class_or_function(
    kind: type[PluginKind] | None, definition: Any, name: str, label: str
) -> Plugin:
    """Return a class or function as a plug-in, of the kind that it is if none is given."""
    if not isinstance(definition, type):
        of_kind = kind or _kind_of_function(definition, name, label)
        label = label if kind else f"--plugin {of_kind.name}={name}"
        return wrapped(of_kind, definition, name, label, lambda _: of_kind.of_function(definition))
    of_kind = kind or kind_of(definition, label, name)
    settings = getattr(definition, "Settings", None)
    if settings is None:
        return wrapped(of_kind, definition, name, label, lambda _: of_kind.of_class(definition))
    known = _checked_settings(settings, of_kind, label)
    return wrapped(of_kind, definition, name, label, partial(of_kind.of_class, definition), *known)


def _kind_of_function(function: Callable[..., Any], name: str, label: str) -> type[PluginKind]:
    """Return the only kind that may be meant by a function, by the arguments that it takes."""
    able = [kind for kind in KINDS.values() if kind.takes_functions]
    taking = [kind for kind in able if kind.claims_function(function)] or able
    if len(taking) == 1:
        return taking[0]
    words = " or ".join(f"--plugin {kind.name}={name}" for kind in taking)
    raise refused(label, f"is a function, which does not tell its kind; say {words}")


def wrapped(
    kind: type[PluginKind],
    definition: Any,
    name: str,
    label: str,
    make: Callable[[Any], object],
    word: str | None = None,
    user_settings: type[Settings] | None = None,
) -> Plugin:
    """Return the plug-in of a class or function, with settings that know it."""
    with user_code(f"{label}: its Settings"):
        settings = _settings(kind, name, user_settings)
    return Plugin(
        name,
        kind=kind,
        label=label,
        word=name if word is None else word,
        settings=settings,
        replaces_any=user_settings is None,
        source_sha256=source_sha256(definition),
        version=version_of(definition),
        make=make,
    )


def _settings(kind: type[PluginKind], name: str, of_user: type[Settings] | None) -> type[Settings]:
    """Return the settings that stand in the scenario: of the user, of fleetsim, or of both."""
    if of_user is None:
        return _of_word("ReplacementSettings", kind, name, f"The {kind.name} {name}.")
    if kind.settings_base is Settings:
        return of_user
    bases = (of_user, kind.settings_base)
    return create_model(of_user.__name__, __base__=bases, __doc__=of_user.__doc__)


def _of_word(
    name: str, kind: type[PluginKind], word: str, doc: str | None, **options: Any
) -> type[Settings]:
    """Return new settings whose `kind` is a word."""
    base, literal = kind.settings_base, cast("Any", Literal)  # its value is known only at run time
    of_kind: Any = (literal[word], word)
    return create_model(name, __base__=base, __doc__=doc, __cls_kwargs__=options, kind=of_kind)


def _imported(module_name: str, label: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        # Last: no file in the current folder may hide an installed module.
        sys.path.append(here)
    before = dict(os.environ)
    try:
        with user_code(f"{label}: importing {module_name}"):
            module = importlib.import_module(module_name)
    except PluginError as fault:
        cause = fault.__cause__
        if isinstance(cause, KeyError) and cause.args == (module_name,):
            message = f"removes {module_name} from sys.modules as it is imported; leave it there"
            raise refused(label, message) from cause
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        if missing is None or not f"{module_name}.".startswith(f"{missing}."):
            raise
        message = f"there is no module {quoted(missing)}, neither in {here} nor installed"
        raise refused(label, message) from cause
    set_here = {key: value for key, value in os.environ.items() if before.get(key) != value}
    # The end of a run restores the environment, and a module is imported once.
    os.environ.update(_ENVIRONMENT.setdefault(module_name, set_here))
    return module


def _checked_settings(given: Any, kind: type[PluginKind], label: str) -> tuple[str, type[Settings]]:
    """Return the word of the kind of a class's settings, and these settings."""
    if not (isinstance(given, type) and issubclass(given, Settings)):
        raise refused(label, "its Settings must be a subclass of fleetsim.settings.Settings")
    field = given.model_fields.get("kind")
    literal = field.annotation if field is not None else None
    words = get_args(literal) if get_origin(literal) is Literal else ()
    if len(words) != 1 or not isinstance(words[0], str) or ":" in words[0]:
        message = "its Settings need one kind of their own without a colon, kind: Literal['mine']"
        raise refused(label, message)
    if words[0] in kind.bundled:
        message = f"kind {quoted(words[0])} is {kind.noun} of fleetsim's; choose another word"
        raise refused(label, message)
    known = {*dir(kind.settings_base)} - {*dir(Settings), "kind"}
    taken = sorted(known & {*given.model_fields})
    if taken:
        raise refused(label, f"its Settings have a key {quoted(taken[0])}; choose another word")
    return words[0], given


def stored(plugin: Plugin) -> dict[str, Any]:
    """Return the identity of a plug-in as plain data, for `stand_in`."""
    return {"kind": plugin.kind.name, **{name: getattr(plugin, name) for name in _IDENTITY}}


def stand_in(stored_identity: Mapping[str, Any]) -> Plugin:
    """Return the stand-in of a plug-in that is not loaded, whose settings may have any keys.

    A scenario with it has the data and hashes of one with the plug-in, but cannot run.
    """
    known = {each: stored_identity[each] for each in _IDENTITY}
    kind, name, word = KINDS[stored_identity["kind"]], known["name"], known["word"]

    def refuse(_: Settings) -> object:
        raise ScenarioError(f"{name}: is not loaded; give it with --plugin {name}")

    settings = _of_word("StoredSettings", kind, word, kind.settings_base.__doc__, extra="allow")
    return Plugin(kind=kind, label=f"--plugin {name}", settings=settings, make=refuse, **known)
