"""Device files that extend another device file (docs/devices.md).

Figures of the variant replace those of the extended file. A figure is replaced whole, with its
source and its mark, so that no value has the source of another; `battery: null` removes a section.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.quoting import quoted
from fleetsim.schema import strict_yaml
from fleetsim.schema.strict_yaml import Document, KeyPath

KEY = "extends"


def _read(path: Path) -> Document:
    return strict_yaml.read(path, DataError)


def read_device(path: Path, read: Callable[[Path], Document] = _read) -> Document:
    """Return a device file with what it extends, every key with the place that it came from."""
    document = read(path)
    extended = extended_path(document)
    if extended is None:
        return document
    base = read(extended)
    if KEY in base.data:
        raise DataError(
            f"{document.where((KEY,))}: {KEY} = {quoted(document.data[KEY])}: {base.source} extends"
            f" {quoted(base.data[KEY])} itself; extend that one, and write out what differs"
        )
    own = {key: value for key, value in document.data.items() if key != KEY}
    replaced: set[KeyPath] = set()
    data = _over(own, base.data, (), replaced)
    places = {
        key_path: base.where(key_path)
        for key_path in base.places
        if not any(key_path[:length] in replaced for length in range(len(key_path) + 1))
    }
    return Document(data, document.source, document.folder, places | dict(document.places))


def extended_path(document: Document) -> Path | None:
    """Return the path of the file that a device file extends; None if it extends none."""
    if KEY not in document.data:
        return None
    name = document.data[KEY]
    where = f"{document.where((KEY,))}: {KEY} = {strict_yaml.shown(name)}"
    if not isinstance(name, str) or not name:
        raise DataError(f"{where}: must be the name of a bundled device or the path of a file")
    path = bundled.find("devices", name, beside=document.folder)
    if path is None:
        raise DataError(f"{where}: {bundled.not_found('devices', name)}")
    return path


def _over(
    own: dict[str, Any], base: dict[str, Any], at: KeyPath, replaced: set[KeyPath]
) -> dict[str, Any]:
    """Merge two mappings; add to `replaced` the key paths of the base that are overridden."""
    data = dict(base)
    for key, value in own.items():
        below = base.get(key)
        if _is_section(value) and _is_section(below):
            data[key] = _over(value, below, (*at, key), replaced)
        else:
            data[key] = value
            replaced.add((*at, key))
    return data


def _is_section(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell a mapping of figures or sections from a figure."""
    return isinstance(value, dict) and "value" not in value and "source" not in value
