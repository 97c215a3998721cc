"""Lists without repeated entries."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from fleetsim.schema import faults


@dataclass(frozen=True)
class Distinct:
    """Annotation of a list that refuses repeated entries, in linear time and at the second."""

    by: str | None = None
    """Key by which entries that are mappings differ; None: entries are compared as a whole."""
    hint: str = "name it once"

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        result = handler(schema)
        if self.by is None:
            result["uniqueItems"] = True
        return result

    def _checked(self, entries: Sequence[Hashable]) -> Sequence[Hashable]:
        first_at: dict[Hashable, int] = {}
        for index, entry in enumerate(entries):
            value = entry if self.by is None else getattr(entry, self.by)
            first = first_at.setdefault(value, index)
            if first != index:
                at = (index,) if self.by is None else (index, self.by)
                raise faults.at(at, f"is named twice, here and in entry {first}; {self.hint}")
        return entries
