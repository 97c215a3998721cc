"""Plugins: selectors of the user's own, their import, checks and identity.

docs/selectors.md says how one is written, named and found. A class with its own `Settings` adds its
kind to those of `server.selector` and is made as `CLASS(settings)`. A class without is made as
`CLASS()` and replaces the scenario's selector; the resolved scenario then has `kind: MODULE:CLASS`.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

from pydantic import create_model

from fleetsim.contracts import Selector
from fleetsim.errors import ScenarioError
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.schema import faults
from fleetsim.schema.spelling import did_you_mean
from fleetsim.schema.strict_yaml import Document, KeyPath
from fleetsim.selectors import KINDS
from fleetsim.settings import Settings

_SELECTOR: KeyPath = ("server", "selector")
_KIND: KeyPath = (*_SELECTOR, "kind")
_EXAMPLE = "docs/selectors.md has an example"
_METHODS = {
    name: list(inspect.signature(method).parameters)[1:]
    for name, method in vars(Selector).items()
    if inspect.isfunction(method) and not name.startswith("_")
}
"""Methods of a selector, with the arguments of each."""
_NEEDS = ("needs_losses", "needs_probes")


@dataclass(frozen=True, slots=True)
class Plugin:
    """Selector of the user's own."""

    name: str
    """`MODULE:CLASS`."""
    kind: str
    """Its `server.selector.kind`."""
    settings: type[Settings]
    """Settings class of `server.selector` for this kind."""
    replaces_any: bool
    """True if it has no settings and so replaces the scenario's selector of any kind."""
    source_sha256: str | None
    """SHA-256 of the file that defines it; None without such a file, as in a notebook."""
    make: Callable[[Settings], Any]
    """Function from settings to a selector that is not checked yet."""

    def build(self, settings: Settings) -> Selector:
        """Return a new selector with these settings.

        Raises:
            ScenarioError: it cannot be made, or is no selector.
        """
        try:
            made = self.make(settings)
        except Exception as fault:
            call = f"{self.name.partition(':')[2]}({'' if self.replaces_any else 'settings'})"
            raise _refused(self.name, f"{call} fails: {_told(fault)}") from fault
        _require_selector(made, self.name)
        selector: Selector = made
        return selector

    def placed(self, document: Document) -> Document:
        """Return the document with this selector as its `server.selector`.

        Raises:
            ScenarioError: the document asks for another one that it may not replace.
        """
        server = document.data.get("server")
        if not isinstance(server, dict) or _kind_in(document) == self.kind:
            return document
        if not self.replaces_any:
            says = (
                f"--plugin {self.name} is the selector of kind {quoted(self.kind)}, which the"
                f" scenario does not use; add --set server.selector.kind={self.kind}, or leave out"
                " --plugin"
            )
            raise ScenarioError(faults.line(document, _KIND, says))
        for place, words in document.places.items():
            is_about = place[:2] == _SELECTOR or (place == _SELECTOR[:1] and "selector" in server)
            if isinstance(words, str) and is_about:
                raise ScenarioError(
                    f"{words}: has no effect, --plugin {self.name} has no Settings and replaces"
                    " server.selector; leave out one of the two"
                )
        data = {**document.data, "server": {**server, "selector": {"kind": self.kind}}}
        return replace(document, data=data)


def load_plugin(name: str) -> Plugin:
    """Import the module of `MODULE:CLASS` and return the class as a plugin.

    Raises:
        ScenarioError: there is no such module or class, or it cannot be imported or used.
    """
    module_name, _, class_name = name.partition(":")
    is_word = all(part.isidentifier() for part in (*module_name.split("."), class_name))
    if not is_word or module_name.endswith(".py"):
        raise _refused(name, "must be MODULE:CLASS, such as mine:Mine for class Mine of mine.py")
    module = _imported(module_name, name)
    found = vars(module).get(class_name)
    if not isinstance(found, type):
        says = "has no class" if found is None else "means no class by"
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        hint = did_you_mean(class_name, classes)
        place = getattr(module, "__file__", None) or module_name
        raise _refused(name, f"{place} {says} {quoted(class_name)}{hint}")
    own = _own_settings(found, name)
    if own is None:
        return _replacement(name, found, lambda settings: found())
    digest = _source_sha256(found)
    return Plugin(name, *own, replaces_any=False, source_sha256=digest, make=found)


def plugin_of(selector: Selector) -> Plugin:
    """Return a plugin for a selector given from Python; it replaces the scenario's.

    Raises:
        ScenarioError: it is no selector.
    """
    cls = type(selector)
    name = f"{cls.__module__}:{cls.__qualname__}"
    if isinstance(selector, type):
        raise ScenarioError(f"selector: is the class {selector.__name__}; give an object of it")
    return _replacement(name, cls, lambda settings: selector)


def refuse_missing_plugin(document: Document) -> None:
    """Refuse a scenario that asks for a plugin that was not given; import nothing.

    Raises:
        ScenarioError: the scenario asks for such a plugin.
    """
    kind = _kind_in(document)
    if isinstance(kind, str) and ":" in kind:
        says = f"is no selector of fleetsim's; if you know it, give it with --plugin {kind}"
        raise ScenarioError(faults.line(document, _KIND, says))


def _replacement(name: str, cls: type, make: Callable[[Settings], Any]) -> Plugin:
    literal: Any = Literal  # its value is known only at run time
    settings = create_model("ReplacementSettings", __base__=Settings, kind=(literal[name], name))
    settings.__doc__ = f"The selector {name}."
    return Plugin(
        name,
        kind=name,
        settings=settings,
        replaces_any=True,
        source_sha256=_source_sha256(cls),
        make=make,
    )


def _imported(module_name: str, name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        # Last: no file in the current folder may hide an installed module.
        sys.path.append(here)
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as fault:
        missing = fault.name if isinstance(fault, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            says = f"there is no module {quoted(missing)}, neither in {here} nor installed"
        else:
            says = f"importing {module_name} fails: {_told(fault)}"
        raise _refused(name, says) from fault


def _own_settings(cls: type, name: str) -> tuple[str, type[Settings]] | None:
    """Return the kind and the settings of a class, None if it has none."""
    own = getattr(cls, "Settings", None)
    if own is None:
        return None
    if not (isinstance(own, type) and issubclass(own, Settings)):
        raise _refused(name, "its Settings must be a subclass of fleetsim.settings.Settings")
    field = own.model_fields.get("kind")
    literal = field.annotation if field is not None else None
    kinds = get_args(literal) if get_origin(literal) is Literal else ()
    if len(kinds) != 1 or not isinstance(kinds[0], str) or ":" in kinds[0]:
        says = "its Settings need one kind of their own without a colon, kind: Literal['mine']"
        raise _refused(name, says)
    if kinds[0] in KINDS:
        raise _refused(
            name, f"kind {quoted(kinds[0])} is a selector of fleetsim's; choose another word"
        )
    return kinds[0], own


def _require_selector(made: object, name: str) -> None:
    """Check that an object is a selector, without calling its methods.

    Raises:
        ScenarioError: it cannot be a selector.
    """
    stubs = vars(Selector)
    missing = [
        method
        for method in _METHODS
        # A subclass of the Protocol inherits its empty methods.
        if getattr(type(made), method, None) is stubs[method]
        or not callable(getattr(made, method, None))
    ]
    if missing:
        raise _refused(name, f"is no selector, it lacks {', '.join(missing)}; {_EXAMPLE}")
    for method, arguments in _METHODS.items():
        try:
            inspect.signature(getattr(made, method)).bind(*arguments)
        except TypeError:
            call = f"{method}({', '.join(arguments)})"
            raise _refused(name, f"cannot be called as {call}; {_EXAMPLE}") from None
    for need in _NEEDS:
        answer = getattr(made, need, None)
        if not isinstance(answer, bool):
            raise _refused(name, f"{need} must be True or False, not {quoted(answer)}; {_EXAMPLE}")


def _kind_in(document: Document) -> Any:
    """Return the `server.selector.kind` of a document, None without one."""
    here: Any = document.data
    for key in _KIND:
        here = here.get(key) if isinstance(here, dict) else None
    return here


def _source_sha256(cls: type) -> str | None:
    try:
        path = inspect.getsourcefile(cls)
    except (TypeError, OSError):
        # Raised for a class written in a notebook, at a prompt, or in C.
        return None
    if path is None or not paths.is_file(Path(path), ScenarioError):
        return None
    return hashlib.sha256(paths.read(Path(path), ScenarioError)).hexdigest()


def _told(fault: BaseException) -> str:
    """Return a fault of the plugin's code on one line, with the place where it was raised."""
    text = " ".join(f"{type(fault).__name__}: {fault}".split())
    frames = traceback.extract_tb(fault.__traceback__)
    if isinstance(fault, SyntaxError) or not frames:
        return text  # a SyntaxError names its place
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})"


def _refused(name: str, says: str) -> ScenarioError:
    return ScenarioError(f"--plugin {name}: {says}")
