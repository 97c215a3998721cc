"""Names that the shell completes; where none fits, it completes files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from fleetsim import bundled

FILE_KINDS: dict[str, bundled.Kind] = {
    "scenario": "scenarios",
    "study": "studies",
    "search": "searches",
    "device": "devices",
    "radio": "radios",
    "trace": "traces",
    "prices": "prices",
}
"""Kinds of bundled files that people read and copy."""


def file_kind(word: str) -> str | None:
    """Return the kind of bundled files that a word names, in the singular or plural."""
    return next(
        (one for one, many in FILE_KINDS.items() if word in (one, many, one.removesuffix("s"))),
        None,
    )


def _bundled_names(kind: bundled.Kind) -> Callable[[str], list[str]]:
    def names(incomplete: str) -> list[str]:
        from fleetsim import bundled

        return [name for name in bundled.names(kind) if name.startswith(incomplete)]

    return names


scenarios = _bundled_names("scenarios")
studies = _bundled_names("studies")
searches = _bundled_names("searches")


def datasets(incomplete: str) -> list[str]:
    """Return data sets that can be fetched."""
    from fleetsim.learning.data.loading import REGISTRY

    return [name for name in REGISTRY if name.startswith(incomplete)]


def subjects(incomplete: str) -> list[str]:
    """Return subjects of `fleetsim list`."""
    from fleetsim.catalogue import SUBJECTS

    return [name for name in SUBJECTS if name.startswith(incomplete)]


def files(context: typer.Context, incomplete: str) -> list[str]:
    """Return bundled files of the kind that the command line names."""
    kind = file_kind(str(context.params.get("kind")))
    return [] if kind is None else _bundled_names(FILE_KINDS[kind])(incomplete)


def file_kinds(incomplete: str) -> list[str]:
    """Return kinds of bundled files."""
    return [kind for kind in FILE_KINDS if kind.startswith(incomplete)]
