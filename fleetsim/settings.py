"""Base of every settings class: frozen, unknown keys refused, no NaN or infinity."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fleetsim.schema.explained_keys import NO_EFFECT
from fleetsim.schema.field_docstrings import description
from fleetsim.schema.key_conditions import ActsIf

DEFAULTS_VERSION = 1
"""Version of the defaults of all settings: raised by one when an existing default changes. It
enters hashes of `stated`, in which a default value cannot be told from a key that is not there."""

_TELLS_KIND = frozenset({"kind", "mode"})
"""Keys that choose a settings class, so that their value is stated even if it is the default."""


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
        protected_namespaces=(),
    )

    acts_if: ClassVar[Mapping[str, tuple[ActsIf, ...]]] = {}
    """Keys that can change a run only in some scenarios, with the condition. A subclass adds to
    those of its parents. All other keys act in every scenario that sets them."""

    entries_act_if: ClassVar[Mapping[str, tuple[ActsIf, ...]]] = {}
    """Keys of lists or mappings whose entries can change a run only in some scenarios, with the
    conditions on each entry. The first condition that fails is reported. Inherited like `acts_if`.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema, with descriptions and the places where a key has no effect."""
        schema = handler(core_schema)
        keys = handler.resolve_ref_schema(schema).get("properties", {})
        for name in keys:
            about = description(cls, name)
            if about is not None:
                keys[name]["description"] = about
        for name, conditions in cls.conditions().items():
            if name in keys:
                keys[name][NO_EFFECT] = "; or ".join(each.text for each in conditions)
        return schema

    @classmethod
    def conditions(cls) -> dict[str, tuple[ActsIf, ...]]:
        """Return `acts_if` of this class and of its parents."""
        return cls._joined("acts_if")

    @classmethod
    def entry_conditions(cls) -> dict[str, tuple[ActsIf, ...]]:
        """Return `entries_act_if` of this class and of its parents."""
        return cls._joined("entries_act_if")

    def stated(self) -> dict[str, Any]:
        """Return the settings as plain data without those that have their default.

        A key that a later version adds is missing as long as it has its default, so hashes of this
        data with `DEFAULTS_VERSION` stay the same. Kinds are always part of it.

        >>> from fleetsim.learning.local.settings import LocalSettings
        >>> sgd = {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.0}
        >>> LocalSettings.model_validate({"epochs": 1, "batch_size": 8, "optimizer": sgd}).stated()
        {'epochs': 1, 'batch_size': 8, 'optimizer': {'kind': 'sgd', 'learning_rate': 0.1}}
        """
        plain = self.model_dump(mode="json")
        return {
            name: stated_value(value, plain[name])
            for name, info in type(self).model_fields.items()
            for value in [getattr(self, name)]
            if name in _TELLS_KIND
            or info.is_required()
            or value != info.get_default(call_default_factory=True)
        }

    @classmethod
    def _joined(cls, attribute: str) -> dict[str, Any]:
        """Return a mapping of this class and of its parents; the class itself has priority."""
        joined: dict[str, Any] = {}
        for parent in reversed(cls.__mro__):
            joined |= parent.__dict__.get(attribute, {})
        return joined


def stated_value(value: Any, plain: Any) -> Any:
    """Return a value as plain data, with the stated keys alone of settings in it."""
    match value:
        case Settings():
            return value.stated()
        case tuple() | list():
            return [stated_value(one, of) for one, of in zip(value, plain, strict=True)]
        case dict():
            return {key: stated_value(one, plain[str(key)]) for key, one in value.items()}
        case _:
            return plain
