"""Plug-ins: the interface of their kinds, and one plug-in with its identity and settings.

A kind says its place in the scenario, its Protocol and its checks. The identity of a plug-in is its
name, the SHA-256 of its file, and its version.
"""

import hashlib
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, get_args

from fleetsim.errors import ScenarioError
from fleetsim.host import paths
from fleetsim.host.user_code import user_code
from fleetsim.quoting import quoted
from fleetsim.schema import faults
from fleetsim.schema.strict_yaml import Document, KeyPath, spelled
from fleetsim.settings import Settings
from fleetsim.user.watched_calls import WatchedCalls, refused


def name_of(definition: Any) -> str:
    """Return `MODULE:NAME` of a class or function.

    >>> name_of(Path)
    'pathlib:Path'
    """
    return f"{definition.__module__}:{definition.__qualname__}"


def source_sha256(definition: Any) -> str | None:
    """Return the SHA-256 of the file that defines a class or function; None without such a file.

    `definition` may be None.
    """
    try:
        path = inspect.getsourcefile(definition)
    except (TypeError, OSError):
        # Raised for a class written in a notebook, at a prompt, or in C.
        return None
    if path is None or not paths.is_file(Path(path), ScenarioError):
        return None
    return hashlib.sha256(paths.read(Path(path), ScenarioError)).hexdigest()


def version_of(definition: Any) -> str | None:
    """Return the version of the module of a class or function, None if it has none.

    `definition` may be None. A version is `__version__` of the module or of its package, or the
    version of the distribution that installed it.
    """
    if definition is None:
        return None
    parts = str(definition.__module__).split(".")
    for length in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        declared = vars(module).get("__version__") if module is not None else None
        if isinstance(declared, str):
            return declared
    owners = sorted(set(_distributions().get(parts[0], [])))
    return metadata.version(owners[0]) if len(owners) == 1 else None


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Return the installed distributions by top-level module; half a second, once in a process."""
    return metadata.packages_distributions()


def kinds_of(union: Any) -> frozenset[str]:
    """Return the words `kind` of the members of an annotated union of settings."""
    return frozenset(
        str(member.model_fields["kind"].default) for member in get_args(get_args(union)[0])
    )


def accepts(call: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Return whether something can be called with such arguments.

    True of a built-in one that does not say what it takes: its answers are checked later.
    """
    try:
        inspect.signature(call).bind(*arguments, **named)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


class PluginKind(ABC):
    """One kind of plug-in; all its facts belong to the class."""

    name: ClassVar[str]
    """Word in `--plugin KIND=MODULE:NAME`, keyword of `fleetsim.run`, and kind in the manifest."""
    noun: ClassVar[str]
    """The name with its article, for messages: `an aggregator`."""
    key_path: ClassVar[KeyPath | None]
    """Mapping of the scenario, told apart by `kind`, in which it stands; None: nowhere in it, it
    changes no result."""
    protocol: ClassVar[type]
    """Protocol in `fleetsim.contracts` that it must satisfy."""
    optional_protocol: ClassVar[type] = object
    """Protocol whose methods it may have besides."""
    inherited: ClassVar[frozenset[str]] = frozenset()
    """Methods of the Protocol that its subclasses inherit."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """Methods of the Protocol that may be left out, all together."""
    marks: ClassVar[frozenset[str]]
    """Methods of the Protocol that no other kind has."""
    bundled: ClassVar[Collection[str]]
    """Words that `kind` may have without a plug-in."""
    settings_base: ClassVar[type[Settings]]
    """Base of the settings that stand at `key_path`."""
    page: ClassVar[str] = "`fleetsim docs plugins`"
    """Page with an example."""
    takes_classes: ClassVar[bool] = True
    """True: Python may give a class, from which every run makes a new object."""
    takes_functions: ClassVar[bool] = False
    """True: a function may take the place of a class; `of_function` makes the object."""
    copies_objects: ClassVar[bool] = True
    """True: a run works on a copy of an object given from Python, so that the next run begins with
    the same one. False: on the object itself, which the kind's Protocol sets up anew."""

    @classmethod
    def claims(cls, given: object) -> bool:
        """Return whether a class is recognisably of this kind: it has a method that marks it."""
        return isinstance(given, type) and any(hasattr(given, mark) for mark in cls.marks)

    @classmethod
    def of_function(cls, function: Callable[..., Any]) -> object:
        """Return the object that a function stands for, only if `takes_functions`.

        The function is the one method of the Protocol.
        """
        (method,) = cls.methods()
        return SimpleNamespace(**{method: function})

    @classmethod
    def of_object(cls, given: Any) -> tuple[object, str, Any]:
        """Return the object that Python gives, its name, and what defines it, if anything does."""
        return given, name_of(type(given)), type(given)

    @classmethod
    def hint(cls, word: str) -> str:
        """Return how to give the plug-in that a scenario asks for by its word."""
        return f"if you know it, give it with --plugin {word}"

    @classmethod
    def of_class(cls, definition: type, settings: Settings | None = None) -> object:
        """Return a new object of the user's class, made with its settings if it has some."""
        return definition() if settings is None else definition(settings)

    @classmethod
    def claims_function(cls, function: Callable[..., Any]) -> bool:
        """Return whether a function may be of this kind, by the arguments that it takes."""
        return cls.takes_functions

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object cannot be of this kind, with the way out; None if it can.

        Its methods are looked at and not called.
        """
        methods = cls.methods()
        lacking = {name for name in methods if not cls.has(made, name)}
        missing = [name for name in methods if name in lacking - cls.optional]
        if cls.optional & lacking and not cls.optional <= lacking:
            # Half of what belongs together, such as `state` without `restore`.
            missing += [name for name in methods if name in cls.optional & lacking]
        if missing:
            return f"is no {cls.name}, it lacks {', '.join(missing)}; {cls.page} has an example"
        for name, arguments in methods.items():
            if name not in lacking and not accepts(getattr(made, name), *arguments):
                call = f"{name}({', '.join(arguments)})"
                return f"cannot be called as {call}; {cls.page} has an example"
        return None

    @classmethod
    @abstractmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse objects of the user's class as a run would call them.

        `make` makes a new one; calls of its methods are watched.
        """

    @classmethod
    def methods(cls) -> dict[str, list[str]]:
        """Return the methods of the Protocols, with the names of the arguments of each."""
        return {
            name: list(inspect.signature(method).parameters)[1:]
            for protocol in (cls.protocol, cls.optional_protocol)
            for name, method in vars(protocol).items()
            if inspect.isfunction(method) and not name.startswith("_")
        }

    @classmethod
    def has(cls, made: object, name: str) -> bool:
        """Return whether an object has a method of its own, not a Protocol's empty one."""
        stub = vars(cls.protocol).get(name) or vars(cls.optional_protocol)[name]
        is_empty = getattr(type(made), name, None) is stub and name not in cls.inherited
        return not is_empty and callable(getattr(made, name, None))


@dataclass(frozen=True, slots=True)
class Plugin:
    """Part of the user's own, of one kind."""

    name: str
    """`MODULE:NAME`."""
    kind: type[PluginKind]
    label: str
    """Name and its origin, for messages: `--plugin mine:Mine`, or `aggregator mine:Mine`."""
    word: str
    """Its `kind` in the scenario."""
    settings: type[Settings]
    """Settings class for this word."""
    replaces_any: bool
    """True if it has no settings and so replaces the scenario's part of any kind."""
    source_sha256: str | None
    """SHA-256 of the file that defines it; None without such a file, as in a notebook."""
    version: str | None
    """Version of its module or distribution; None if it has none."""
    make: Callable[[Any], object]
    """Function from settings to an object that is not checked yet."""

    def __post_init__(self) -> None:
        if issubclass(self.settings, PluginSettings):
            self.settings.plugin = self

    def build(self, settings: Settings) -> Any:
        """Return a new object with these settings."""
        call = f"{self.name.partition(':')[2]}({'' if self.replaces_any else 'settings'})"
        with user_code(f"{self.label}: {call}"):
            made = self.make(settings)
        with user_code(f"{self.label}: a look at its methods"):
            message = self.kind.fault(made)
        if message is not None:
            raise refused(self.label, message)
        return made

    def checked(self, document: Document) -> Settings:
        """Return a document with the keys of its settings as settings."""
        with user_code(f"{self.label}: its Settings"):
            return faults.check(self.settings, document)

    def placed(self, document: Document) -> Document:
        """Return the document with this part in its place."""
        place = self.kind.key_path
        if place is None:
            return document
        parent = value_at(document, place[:-1])
        if not isinstance(parent, dict) or self.is_named_in(document):
            return document
        key = (*place, "kind")
        if not self.replaces_any:
            message = (
                f"{self.label} is the {self.kind.name} of kind {quoted(self.word)}, which the"
                f" scenario does not use; add --set {spelled(key)}={self.word}, or leave out"
                " --plugin"
            )
            raise ScenarioError(faults.line(document, key, message))
        for at, words in document.places.items():
            if isinstance(words, str) and _is_about(document, at, place):
                raise ScenarioError(
                    f"{words}: has no effect, {self.label} has no Settings and replaces"
                    f" {spelled(place)}; leave out one of the two"
                )
        return replace(document, data=_with(document.data, place, {"kind": self.word}))

    def is_named_in(self, document: Document) -> bool:
        """Return whether a document asks for this part by its kind."""
        place = self.kind.key_path
        return place is not None and value_at(document, (*place, "kind")) == self.word


class PluginSettings(Settings):
    """Settings at the place of a plug-in, which reach the user's object.

    A kind derives its `settings_base` from it and from the settings that fleetsim has there, and
    implements their methods by `part`.
    """

    plugin: ClassVar[Plugin]
    """Plug-in whose settings they are."""

    def part(self) -> Any:
        """Return a new object of the user's class with these settings."""
        return self.plugin.build(self)


def value_at(document: Document, key_path: KeyPath) -> Any:
    """Return the value of a key in a document, None without one."""
    here: Any = document.data
    for key in key_path:
        here = here.get(key) if isinstance(here, dict) else None
    return here


def _is_about(document: Document, at: KeyPath, place: KeyPath) -> bool:
    """Return whether an override at one place has set another: it is there, below or above."""
    if at[: len(place)] == place:
        return True
    if not at or at != place[: len(at)]:
        return False
    return value_at(document, place[: len(at) + 1]) is not None


def _with(data: dict[str, Any], place: KeyPath, value: Any) -> dict[str, Any]:
    """Return data with another value at a place whose parents exist."""
    key, *below = place
    changed = _with(data[str(key)], tuple(below), value) if below else value
    return {**data, str(key): changed}
