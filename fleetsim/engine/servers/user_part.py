"""Name of a part of the user's own, and its faults."""

from dataclasses import dataclass

from fleetsim.errors import PluginError


@dataclass(frozen=True, slots=True)
class UserPart:
    """Part of the user's own among those that a server calls, as messages name it."""

    name: str
    """Name and origin, as in `--plugin mine:Mine`."""
    file: str | None
    """File that defines it; None without one, as in a notebook."""

    def error(self, text: str) -> PluginError:
        """Return the error about a wrong answer, which `text` describes."""
        return PluginError(f"{self.name}: {text}" + (f" ({self.file})" if self.file else ""))
