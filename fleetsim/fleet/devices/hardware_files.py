"""Device and radio files of one scenario, each opened and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.fleet.devices.extension import extended_path, read_device
from fleetsim.fleet.devices.profile_files import DeviceFile, RadioFile
from fleetsim.fleet.devices.uncertainty import DrawnFigure, FigureErrors
from fleetsim.quoting import quoted
from fleetsim.schema import strict_yaml
from fleetsim.schema.faults import check
from fleetsim.schema.strict_yaml import Document

HardwareKind = Literal["devices", "radios"]


@dataclass(frozen=True, slots=True)
class HardwareFiles:
    """Contents of device and radio files, read when first asked for and then kept.

    A scenario has its own, so that it runs with the files as they were when it was checked; what
    changes in a file later shows in scenarios that are loaded later. Two are always equal: what was
    read is no part of a scenario's value.
    """

    errors: FigureErrors | None = field(default=None, compare=False)
    """Errors that the figures have; None: they are as in the files."""
    _documents: dict[Path, Document] = field(default_factory=dict, compare=False, repr=False)
    _devices: dict[Path, DeviceFile] = field(default_factory=dict, compare=False, repr=False)
    _radios: dict[Path, RadioFile] = field(default_factory=dict, compare=False, repr=False)
    _drawn: dict[Path, tuple[DrawnFigure, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def with_errors(self, errors: FigureErrors) -> HardwareFiles:
        """Return the same files, as they were read, with errors of their figures."""
        return HardwareFiles(errors, self._documents)

    def device(self, path: Path) -> DeviceFile:
        """Return the content of a device file, with what it extends."""
        key = _place(path)
        if key not in self._devices:
            document = read_device(path, self._document)
            file = check(DeviceFile, document, DataError)
            if self.errors is not None:
                origin = partial(_origin, path, document, extended_path(self._document(path)))
                file, self._drawn[key] = self.errors.of(path.stem, file, origin)
            self._devices[key] = file
        return self._devices[key]

    def radio(self, path: Path) -> RadioFile:
        """Return the content of a radio file."""
        key = _place(path)
        if key not in self._radios:
            file = check(RadioFile, self._document(path), DataError)
            if self.errors is not None:
                file, self._drawn[key] = self.errors.of(path.stem, file, lambda _: path.stem)
            self._radios[key] = file
        return self._radios[key]

    def file(self, kind: HardwareKind, name: str) -> DeviceFile | RadioFile:
        """Return the content of a device or radio file by its bundled name or path."""
        path = find_hardware(kind, name)
        return self.device(path) if kind == "devices" else self.radio(path)

    def drawn(self, kind: HardwareKind, name: str) -> tuple[DrawnFigure, ...]:
        """Return the figures with errors of a file by its bundled name or path."""
        self.file(kind, name)
        return self._drawn.get(_place(find_hardware(kind, name)), ())

    def _document(self, path: Path) -> Document:
        key = path.resolve()
        if key not in self._documents:
            self._documents[key] = strict_yaml.read(path, DataError)
        return self._documents[key]


def find_hardware(kind: HardwareKind, name: str, beside: Path | None = None) -> Path:
    """Return the path of a device or radio file by its bundled name or path."""
    path = bundled.find(kind, name, beside=beside)
    if path is None:
        raise DataError(f"{kind[:-1]} {quoted(name)}: {bundled.not_found(kind, name)}")
    return path


def _place(path: Path) -> Path:
    """Return the absolute path; a link keeps its own name, after which the device is called."""
    return path.parent.resolve() / path.name


def _origin(path: Path, document: Document, extended: Path | None, figure: str) -> str:
    """Return the stem of the file that states a figure: the device file or the one it extends."""
    if extended is None or document.line(tuple(figure.split("."))) > 0:
        return path.stem
    return extended.stem
