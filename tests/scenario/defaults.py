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


Defaults = dict[str, dict[str, Any]]
"""The default of every key that has one, by class and key."""


def present() -> Defaults:
    """Return the defaults of the settings classes."""
    result: Defaults = {}
    for owner in settings_walk.scenario_classes():
        for name, info in owner.model_fields.items():
            if not info.is_required():
                default = info.get_default(call_default_factory=True)
                value = stated_value(default, to_jsonable_python(default))
                result.setdefault(owner.__name__, {})[name] = value
    return result


def recorded() -> tuple[int, Defaults]:
    """Return the version and the defaults on record."""
    data = json.loads(FILE.read_text("utf-8"))
    return data["version"], data["defaults"]


def changed(before: Defaults, now: Defaults) -> list[str]:
    """Return the keys in both whose defaults differ."""
    return [
        f"{owner}.{key}"
        for owner, keys in before.items()
        for key, value in keys.items()
        if value != now.get(owner, {}).get(key, value)
    ]


def main() -> None:
    """Write the present defaults; a changed one needs a new version first."""
    now = present()
    if FILE.exists():
        version, before = recorded()
        differing = changed(before, now)
        if differing and version == DEFAULTS_VERSION:
            raise SystemExit(f"raise DEFAULTS_VERSION first: {', '.join(differing)} changed")
    lines = (f'"{owner}": {json.dumps(now[owner], sort_keys=True)}' for owner in sorted(now))
    text = ",\n".join(lines)
    FILE.write_text(f'{{"version": {DEFAULTS_VERSION}, "defaults": {{\n{text}\n}}}}\n', "utf-8")


if __name__ == "__main__":
    main()
