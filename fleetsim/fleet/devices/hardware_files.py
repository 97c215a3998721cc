"""Device and radio files of one scenario, each opened and checked once, with what they extend.

Figures of a device file replace those of the file that it extends (docs/devices.md). A figure is
replaced whole, with its source and its mark, so that no value has the source of another;
`battery: null` removes a section.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.fleet.devices.profile_files import DeviceFile, RadioFile
from fleetsim.fleet.devices.uncertainty import DrawnFigure, FigureErrors, FileT
from fleetsim.quoting import quoted
from fleetsim.schema import strict_yaml
from fleetsim.schema.faults import check
from fleetsim.schema.strict_yaml import Document, KeyPath

HardwareKind = Literal["devices", "radios"]
KEY = "extends"
_read = partial(strict_yaml.read, error=DataError)


@dataclass(frozen=True, slots=True)
class HardwareFiles:
    """Contents of device and radio files, read when first asked for and then kept.

    A scenario has its own, so that it runs with the files as they were when it was checked; what
    changes in a file later shows in scenarios that are loaded later. Two are always equal: what was
    read is no part of a scenario's value.
    """

    beside: Path | None = field(default=None, compare=False)
    """Folder from which relative paths count first: that of the scenario."""
    errors: FigureErrors | None = field(default=None, compare=False)
    """Errors that the figures have; None: they are as in the files."""
    _documents: dict[Path, Document] = field(default_factory=dict, compare=False, repr=False)
    _checked: dict[Path, tuple[DeviceFile | RadioFile, tuple[DrawnFigure, ...]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def with_errors(self, errors: FigureErrors) -> HardwareFiles:
        """Return the same files, as they were read, with errors of their figures."""
        return HardwareFiles(self.beside, errors, self._documents)

    def device(self, name: str) -> tuple[Path, DeviceFile]:
        """Return path and content of a device file by its bundled name or path, and of its base."""
        path = self._find("devices", name)
        return path, self._content(DeviceFile, path)[0]

    def radio(self, name: str) -> tuple[Path, RadioFile]:
        """Return path and content of a radio file by its bundled name or path."""
        path = self._find("radios", name)
        return path, self._content(RadioFile, path)[0]

    def file(self, kind: HardwareKind, name: str) -> DeviceFile | RadioFile:
        """Return the content of a device or radio file by its bundled name or path."""
        return self.device(name)[1] if kind == "devices" else self.radio(name)[1]

    def drawn(self, kind: HardwareKind, name: str) -> tuple[DrawnFigure, ...]:
        """Return the figures with errors of a file by its bundled name or path."""
        schema: type[DeviceFile | RadioFile] = DeviceFile if kind == "devices" else RadioFile
        return self._content(schema, self._find(kind, name))[1]

    def _find(self, kind: HardwareKind, name: str) -> Path:
        path = bundled.find(kind, name, beside=self.beside)
        if path is None:
            raise DataError(f"{kind[:-1]} {quoted(name)}: {bundled.not_found(kind, name)}")
        return path

    def _content(self, schema: type[FileT], path: Path) -> tuple[FileT, tuple[DrawnFigure, ...]]:
        # A link keeps its own name, after which the device is called.
        key = path.parent.resolve() / path.name
        if key not in self._checked:
            document = extended = self._document(path)
            if schema is DeviceFile:
                document = read_device(path, self._document)
            file = check(schema, document, DataError)
            drawn: tuple[DrawnFigure, ...] = ()
            if self.errors is not None:
                origin = partial(_origin, path, document, extended_path(extended))
                file, drawn = self.errors.of(path.stem, file, origin)
            self._checked[key] = file, drawn
        return cast(tuple[FileT, tuple[DrawnFigure, ...]], self._checked[key])

    def _document(self, path: Path) -> Document:
        key = path.resolve()
        if key not in self._documents:
            self._documents[key] = _read(path)
        return self._documents[key]


def _origin(path: Path, document: Document, extended: Path | None, figure: str) -> str:
    """Return the stem of the file that states a figure: the device file or the one it extends."""
    if extended is None or document.line(tuple(figure.split("."))) > 0:
        return path.stem
    return extended.stem


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
    variant = {key: value for key, value in document.data.items() if key != KEY}
    replaced: set[KeyPath] = set()
    data = _over(variant, base.data, (), replaced)
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
    variant: dict[str, Any], base: dict[str, Any], at: KeyPath, replaced: set[KeyPath]
) -> dict[str, Any]:
    """Merge two mappings; add to `replaced` the key paths of the base that are overridden."""
    data = dict(base)
    for key, value in variant.items():
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
