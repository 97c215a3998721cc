"""Interface of a kind of plug-in: its place in the scenario, its Protocol and its checks."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, ClassVar, get_args

from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings
from fleetsim.user import identity
from fleetsim.user.watched_calls import WatchedCalls


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
    page: ClassVar[str] = "docs/plugins.md"
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
        return given, identity.name_of(type(given)), type(given)

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
