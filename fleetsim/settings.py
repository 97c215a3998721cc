"""Base of every settings class: frozen, unknown keys refused, no NaN or infinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from fleetsim.schema.effects import ActsIf, AllOf, EntryActsIf


class Settings(BaseModel):
    """Base of all scenario settings.

    A settings class is defined beside its owner, has units in its key names, and writes each
    default once. Field docstrings become the descriptions of the JSON Schema.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    acts_if: ClassVar[Mapping[str, ActsIf | AllOf]] = {}
    """Keys that can change a run only in some scenarios, with the condition. A subclass adds to
    those of its parents. All other keys act in every scenario that sets them."""

    entries_act_if: ClassVar[Mapping[str, tuple[EntryActsIf, ...]]] = {}
    """Keys of lists or mappings whose entries can change a run only in some scenarios, with the
    conditions on each entry. The first condition that fails is reported. Inherited like `acts_if`.
    """

    @classmethod
    def conditions(cls) -> dict[str, ActsIf | AllOf]:
        """Return `acts_if` of this class and of its parents."""
        return cls._joined("acts_if")

    @classmethod
    def entry_conditions(cls) -> dict[str, tuple[EntryActsIf, ...]]:
        """Return `entries_act_if` of this class and of its parents."""
        return cls._joined("entries_act_if")

    @classmethod
    def _joined(cls, attribute: str) -> dict[str, Any]:
        """Return a mapping of this class and of its parents; the class itself has priority."""
        found: dict[str, Any] = {}
        for parent in reversed(cls.__mro__):
            found |= parent.__dict__.get(attribute, {})
        return found
