"""The base of every settings class: frozen, unknown keys refused, no NaN or infinity."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


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
