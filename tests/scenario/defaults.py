"""Defaults of all scenario keys on record, `python -m tests.scenario.defaults` to add new ones.

Hashes without defaults (`Settings.stated`) stay the same when a key is added, and must not when the
default of a key changes. So a changed default asks for a new `DEFAULTS_VERSION`.
"""

import json
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from fleetsim.settings import DEFAULTS_VERSION, stated_value
from tests import settings_walk

FILE = Path(__file__).with_name("defaults.json")


def present() -> dict[str, Any]:
    """Return the default of every key that has one, by class and key."""
    found = {}
    for owner in settings_walk.scenario_classes():
        for name, info in owner.model_fields.items():
            if not info.is_required():
                default = info.get_default(call_default_factory=True)
                found[f"{owner.__name__}.{name}"] = stated_value(
                    default, to_jsonable_python(default)
                )
    return found


def recorded() -> tuple[int, dict[str, Any]]:
    """Return the version and the defaults on record."""
    data = json.loads(FILE.read_text("utf-8"))
    return data["version"], data["defaults"]


def changed(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the keys in both whose defaults differ."""
    return [key for key in before if key in now and before[key] != now[key]]


def main() -> None:
    """Write the present defaults; a changed one needs a new version first."""
    now = present()
    if FILE.exists():
        version, before = recorded()
        differing = changed(before, now)
        if differing and version == DEFAULTS_VERSION:
            raise SystemExit(f"raise DEFAULTS_VERSION first: {', '.join(differing)} changed")
    lines = (f"{json.dumps(key)}: {json.dumps(now[key], sort_keys=True)}" for key in sorted(now))
    text = ",\n".join(lines)
    FILE.write_text(
        f'{{"version": {DEFAULTS_VERSION}, "defaults": {{\n{text}\n}}}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()
