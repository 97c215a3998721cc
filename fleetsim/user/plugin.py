"""One plug-in: its settings, its place in a document, and how it is built."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from fleetsim.errors import ScenarioError
from fleetsim.host.user_code import user_code
from fleetsim.quoting import quoted
from fleetsim.schema import faults
from fleetsim.schema.strict_yaml import Document, KeyPath, spelled
from fleetsim.settings import Settings
from fleetsim.user.plugin_kind import PluginKind
from fleetsim.user.watched_calls import refused


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
