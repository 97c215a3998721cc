"""The base of every settings class: frozen, unknown keys refused, no NaN or infinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from fleetsim.schema.effects import ActsIf, AllOf, EntryActsIf


class Settings(BaseModel):
    """Base of all scenario settings.

    A settings class stands beside its owner, carries units in its key names, and writes each
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
    """Keys that can change a run in some scenarios only, with the condition; a subclass adds to
    those of its parents. Keys that are not named act in every scenario that sets them."""

    entries_act_if: ClassVar[Mapping[str, tuple[EntryActsIf, ...]]] = {}
    """Keys that hold a list or mapping whose entries can change a run in some scenarios only, with
    the conditions on each entry, the first of which that fails is told; inherited like `acts_if`.
    """

    @classmethod
    def conditions(cls) -> dict[str, ActsIf | AllOf]:
        """`acts_if` of this class and of its parents."""
        return cls._joined("acts_if")

    @classmethod
    def entry_conditions(cls) -> dict[str, tuple[EntryActsIf, ...]]:
        """`entries_act_if` of this class and of its parents."""
        return cls._joined("entries_act_if")

    @classmethod
    def _joined(cls, attribute: str) -> dict[str, Any]:
        """A mapping of this class and of its parents, in which the class itself comes first."""
        found: dict[str, Any] = {}
        for parent in reversed(cls.__mro__):
            found |= parent.__dict__.get(attribute, {})
        return found
