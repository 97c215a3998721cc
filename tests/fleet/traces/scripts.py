"""Scripts in the folders of bundled traces, imported."""

import importlib
import sys
from typing import Any

from fleetsim import bundled


def script_of(trace: str, name: str = "make") -> Any:
    """Return a module of the folder, as Python finds it when it runs a script there."""
    folder = str(bundled.folder("traces") / trace)
    for module in ("make", "app_sessions"):
        sys.modules.pop(module, None)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)
