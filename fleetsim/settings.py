"""The base of every settings class: frozen, unknown keys refused, no NaN or infinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from fleetsim.effects import ActsIf


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

    acts_if: ClassVar[Mapping[str, ActsIf]] = {}
    """Keys that can change a run in some scenarios only, with the condition; a subclass adds to
    those of its parents. Keys that are not named act in every scenario that sets them."""

    @classmethod
    def conditions(cls) -> dict[str, ActsIf]:
        """`acts_if` of this class and of its parents."""
        found: dict[str, ActsIf] = {}
        for parent in reversed(cls.__mro__):
            found |= parent.__dict__.get("acts_if", {})
        return found
