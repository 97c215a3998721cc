"""Names that the shell completes; where none fits, it completes files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from fleetsim import bundled

FILE_KINDS: dict[str, bundled.Kind] = {
    "scenario": "scenarios",
    "study": "studies",
    "device": "devices",
    "radio": "radios",
    "trace": "traces",
    "prices": "prices",
}
"""Kinds of bundled files that people read and copy."""


def scenarios(incomplete: str) -> list[str]:
    """Return bundled scenarios."""
    from fleetsim import bundled

    return [name for name in bundled.names("scenarios") if name.startswith(incomplete)]


def datasets(incomplete: str) -> list[str]:
    """Return data sets that can be fetched."""
    from fleetsim.learning.data.loading import REGISTRY

    return [name for name in REGISTRY if name.startswith(incomplete)]


def studies(incomplete: str) -> list[str]:
    """Return bundled studies."""
    from fleetsim import bundled

    return [name for name in bundled.names("studies") if name.startswith(incomplete)]


def files(context: typer.Context, incomplete: str) -> list[str]:
    """Return bundled files of the kind that the command line names."""
    from fleetsim import bundled

    kind = FILE_KINDS.get(str(context.params.get("kind")))
    names = [] if kind is None else bundled.names(kind)
    return [name for name in names if name.startswith(incomplete)]
