"""Device and radio files of one scenario, each opened and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fleetsim.errors import DataError
from fleetsim.fleet.devices.extension import read_device
from fleetsim.fleet.devices.profile_files import DeviceFile, RadioFile
from fleetsim.schema import strict_yaml
from fleetsim.schema.faults import check
from fleetsim.schema.strict_yaml import Document


@dataclass(frozen=True, slots=True)
class HardwareFiles:
    """Contents of device and radio files, read when first asked for and then kept.

    A scenario has its own, so that it runs with the files as they were when it was checked; what
    changes in a file later shows in scenarios that are loaded later. Two are always equal: what was
    read is no part of a scenario's value.
    """

    _documents: dict[Path, Document] = field(default_factory=dict, compare=False, repr=False)
    _devices: dict[Path, DeviceFile] = field(default_factory=dict, compare=False, repr=False)
    _radios: dict[Path, RadioFile] = field(default_factory=dict, compare=False, repr=False)

    def device(self, path: Path) -> DeviceFile:
        """Return the content of a device file, with what it extends.

        Raises:
            DataError: the file is not there or wrong.
        """
        key = path.resolve()
        if key not in self._devices:
            document = read_device(path, self._document)
            self._devices[key] = check(DeviceFile, document, DataError)
        return self._devices[key]

    def radio(self, path: Path) -> RadioFile:
        """Return the content of a radio file.

        Raises:
            DataError: the file is not there or wrong.
        """
        key = path.resolve()
        if key not in self._radios:
            self._radios[key] = check(RadioFile, self._document(path), DataError)
        return self._radios[key]

    def _document(self, path: Path) -> Document:
        key = path.resolve()
        if key not in self._documents:
            self._documents[key] = strict_yaml.read(path, DataError)
        return self._documents[key]
