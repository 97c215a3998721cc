"""Identity of a run: what tells its files from those of any other run.

A manifest states it, and a checkpoint repeats it. The tables of a run are bound to its manifest by
their digests, and the manifest is bound to its own content by `content_sha256`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from fleetsim.quoting import MAX_NAME
from fleetsim.settings import Settings

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_SHOWN_DIGITS = 8


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("must hold printable characters alone")
    return name


Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_printable)]
"""Name that pages and figures show."""


class WeightsRecord(Settings):
    """Weight file from which the selector took what it had learned before the run."""

    name: str
    """Bundled name or path."""
    sha256: Hash
    """SHA-256 of the file."""


class FlowerRecord(Settings):
    """Flower app that ran on the clock."""

    app: str
    """Name of the app in its `pyproject.toml`."""
    source_sha256: Hash
    """SHA-256 of its Python and TOML files, with their names."""
    config: dict[str, bool | int | float | str]
    """Its run configuration, with overrides."""
    version: str
    """Version of flwr."""


class RunIdentity(Settings):
    """Everything that determines the state of a run after a number of rounds."""

    scenario_hash: Hash
    """SHA-256 of everything in the scenario that can change the result."""
    seed: Annotated[int, Field(ge=0)]
    """Root of every random draw."""
    trainer: Name
    """Name of the trainer."""
    parts_sha256: Hash
    """SHA-256 of the plug-ins, the Flower app, the user's own files and data, and the weights of
    the selector, as the manifest has them."""
    platforms: tuple[str, ...]
    """Identifiers of the numerical platforms that took part."""

    def differences(self, other: RunIdentity) -> Iterator[str]:
        """Yield in words what another identity has otherwise; nothing if it is the same run.

        The other one may have fewer platforms: those of an earlier moment.
        """
        if other.seed != self.seed:
            yield f"its seed is {other.seed}, not {self.seed}"
        elif other.scenario_hash != self.scenario_hash:
            yield (
                f"its scenario has the hash {other.scenario_hash[:_SHOWN_DIGITS]}..., not"
                f" {self.scenario_hash[:_SHOWN_DIGITS]}..."
            )
        if other.trainer != self.trainer:
            yield f"its trainer is {other.trainer}, not {self.trainer}"
        if other.parts_sha256 != self.parts_sha256:
            yield "its plug-ins, app, own files, data or weights are others"
        if not set(other.platforms) <= set(self.platforms):
            yield "it was made on another numerical platform"


def content_sha256(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain data as JSON with sorted keys and without spaces."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
