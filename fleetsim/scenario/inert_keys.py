"""Keys of a scenario, and entries of its lists, that were set but cannot change the run.

Conditions are those of `Settings.acts_if` and `Settings.entries_act_if`. A key with its default
value is never reported, nor are its entries: resolved scenarios write all keys out.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fleetsim.schema.key_conditions import EntryActsIf, Facts
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings


class Inert(NamedTuple):
    """A key or an entry that has no effect."""

    key_path: KeyPath
    message: str
    is_refused: bool = False
    """True if no other key could give it an effect."""


def inert_keys(settings: Settings, written: Any, facts: Facts) -> Iterator[Inert]:
    """Yield inert keys and entries of a settings object and of those below it, by field order.

    Below an inert key only refused entries are reported. `written` is the mapping as the user wrote
    it, overrides applied.
    """
    if not isinstance(written, dict):
        return
    conditions, entry_conditions = settings.conditions(), settings.entry_conditions()
    for name, info in type(settings).model_fields.items():
        key = info.alias or name
        value = getattr(settings, name)
        if key not in written or value == info.get_default(call_default_factory=True):
            continue
        below = [
            *_entries((key,), value, written[key], entry_conditions.get(name, ()), facts),
            *_below((key,), value, written[key], facts),
        ]
        condition = conditions.get(name)
        unmet = None if condition is None else condition.unmet(settings, facts)
        if unmet is not None:
            yield Inert((key,), _message(unmet.because, unmet.hint))
            below = [each for each in below if each.is_refused]
        yield from below


def _below(key_path: KeyPath, value: Any, written: Any, facts: Facts) -> Iterator[Inert]:
    """Yield what is inert in the settings in a value: the value itself, or items of a list."""
    if isinstance(value, Settings):
        for inert in inert_keys(value, written, facts):
            yield inert._replace(key_path=(*key_path, *inert.key_path))
    elif isinstance(value, tuple) and isinstance(written, list):
        for index, (item, below) in enumerate(zip(value, written, strict=False)):
            yield from _below((*key_path, index), item, below, facts)


def _entries(
    key_path: KeyPath, value: Any, written: Any, conditions: Sequence[EntryActsIf], facts: Facts
) -> Iterator[Inert]:
    """Yield inert entries, as the user wrote them, each with the first condition that fails."""
    if not conditions or not isinstance(written, list | dict):
        return
    keys = range(len(written)) if isinstance(written, list) else written
    for key, entry in zip(keys, value, strict=True):
        unmet = next((each for each in conditions if not each.holds(entry, facts)), None)
        if unmet is not None:
            because = unmet.because.format(entry=entry)
            hint = unmet.hint.format(entry=entry)
            message = f"{because}; leave it out" if unmet.is_refused else _message(because, hint)
            yield Inert((*key_path, key), message, unmet.is_refused)


def _message(because: str, hint: str) -> str:
    return f"has no effect: {because}; {hint}, or leave it out"
