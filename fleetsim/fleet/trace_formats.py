"""Which reader converts a published trace, of people's usage or of a network, by its format."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from fleetsim.errors import ScenarioError
from fleetsim.fleet.net_trace_files import NetFormat, import_net_trace, is_net_format
from fleetsim.fleet.trace_files import TraceFormat, import_trace


def import_any(format_: str, source: Path, dest: Path, *, app: str | None = None) -> None:
    """Convert a trace into fleetsim's own form, in a new folder.

    Args:
        format_: form of the source, of either kind.
        source: its folder or main file.
        dest: new folder, which appears whole or not at all.
        app: of irish-5g, the application whose logs to take; None: Download.

    Raises:
        ScenarioError: there is no such format, or it knows no applications.
        DataError: the source is wrong or of another form, or `dest` exists or cannot be made.
    """
    if is_net_format(format_):
        import_net_trace(format_, source, dest, app=app)
        return
    if format_ not in get_args(TraceFormat):
        known = ", ".join((*get_args(TraceFormat), *get_args(NetFormat)))
        raise ScenarioError(
            f"trace import: format {format_!r} is not known; must be one of {known}"
        )
    if app is not None:
        raise ScenarioError(f"trace import: --app belongs to irish-5g, not to {format_}; drop it")
    import_trace(format_, source, dest)
