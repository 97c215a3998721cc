"""Source files of plug-ins, which travel to the processes and machines that call them."""

import hashlib
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fleetsim.errors import ScenarioError

_PLACED: dict[str, str] = {}
"""Folders of the plug-ins that have travelled to this process, by module."""


@dataclass(frozen=True, slots=True)
class PluginSource:
    """Module that defines a plug-in."""

    name: str
    """`KIND=MODULE:NAME`, or without the kind."""
    source: str | None
    """Text of its file; None: it has none."""

    @property
    def module(self) -> str:
        """Name of the module."""
        return self.name.rpartition("=")[2].partition(":")[0]


def source_of(name: str) -> PluginSource:
    """Return the source of a plug-in of this process, by its full name."""
    file = getattr(sys.modules.get(PluginSource(name, None).module), "__file__", None)
    source = None if file is None else Path(file).read_text(encoding="utf-8")
    return PluginSource(name, source)


def place_plugin(plugin: PluginSource) -> None:
    """Make the module of a plug-in importable, if it is not.

    A module that an earlier order has brought is replaced if its source has changed since.
    """
    module = plugin.module
    before = _PLACED.pop(module, None)
    if before is not None:
        sys.path.remove(before)
        sys.modules.pop(module, None)
        shutil.rmtree(before, ignore_errors=True)
    spec = find_spec(module.partition(".")[0])
    if plugin.source is None or (spec is not None and "." in module):
        return
    if spec is not None:
        here = Path(spec.origin).read_bytes() if spec.origin else b""
        if hashlib.sha256(here).digest() != hashlib.sha256(plugin.source.encode()).digest():
            raise ScenarioError(
                f"--plugin {plugin.name}: {spec.origin or module} on this machine is another"
                " module; rename your own"
            )
        return
    home = Path(tempfile.mkdtemp(prefix="fleetsim-plugin-"))
    (home / f"{module}.py").write_text(plugin.source, encoding="utf-8")
    sys.path.insert(0, str(home))
    _PLACED[module] = str(home)
