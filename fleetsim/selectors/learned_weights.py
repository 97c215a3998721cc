"""Weight files: learned parameters of selectors, for all clients or for certain ones.

A weight file has the format safetensors: named arrays and lines of text, no code. Its text has the
kind of the selector and the origin of the weights. Arrays are stored by the clients for which
they were learned, a `FleetView.clients_hash`, or for any clients. So one file holds the weights of
several fleets, and weights that name clients by number are never used for others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fleetsim import bundled
from fleetsim.contracts import FleetView, State
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.settings import Settings

ANY_CLIENTS = "any"
"""Key of weights that suit any clients."""
_FORMAT = "fleetsim selector weights 1"


@dataclass(frozen=True, slots=True)
class WeightFile:
    """Content of a weight file."""

    kind: str
    """`server.selector.kind` that uses the weights."""
    weights: Mapping[str, State]
    """Arrays by the hash of the clients they are for, or `ANY_CLIENTS`."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Origin of the weights, such as `command` and `seed`."""

    def encoded(self) -> bytes:
        """Return the bytes of the file, the same for equal contents.

        >>> file = WeightFile("fedmarl", {ANY_CLIENTS: {"bias": np.zeros(2)}})
        >>> WeightFile.decoded(file.encoded()).weights["any"]["bias"].tolist()
        [0.0, 0.0]
        """
        arrays = {
            f"{clients}/{name}": np.ascontiguousarray(array)
            for clients, state in sorted(self.weights.items())
            for name, array in sorted(state.items())
        }
        text = json.dumps(dict(sorted(self.facts.items())))
        # One entry, as safetensors writes several in no fixed order.
        about = json.dumps({"format": _FORMAT, "kind": self.kind, "facts": text})
        return save(arrays, metadata={"fleetsim": about})

    @classmethod
    def decoded(cls, data: bytes) -> WeightFile:
        """Return the content of a weight file.

        Raises:
            ValueError: it is no weight file.
        """
        try:
            arrays = load(data)
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + length])
            about = json.loads(header["__metadata__"]["fleetsim"])
            facts = json.loads(about["facts"])
            kind, form = about["kind"], about["format"]
        except (SafetensorError, KeyError, TypeError, ValueError) as fault:
            raise ValueError("is no weight file of a selector") from fault
        if form != _FORMAT:
            raise ValueError(f"has the format {quoted(str(form))}, not {quoted(_FORMAT)}")
        weights: dict[str, State] = {}
        for key, array in arrays.items():
            clients, _, name = key.partition("/")
            weights.setdefault(clients, {})[name] = array
        return cls(str(kind), weights, {str(key): str(value) for key, value in facts.items()})


def read_weights(name: str) -> WeightFile:
    """Return the content of a bundled weight file or of one of the user's own.

    Raises:
        DataError: there is none, it cannot be read, or it is no weight file.
    """
    path = _path(name)
    try:
        return WeightFile.decoded(paths.read(path))
    except ValueError as fault:
        raise DataError(
            f"{path}: {fault}; `fleetsim selector train` writes one, or name another"
        ) from fault


def weights_for(name: str, kind: str, fleet: FleetView) -> State:
    """Return the arrays of a weight file for the clients of a fleet.

    Raises:
        DataError: there is no such file, or it cannot be read.
        ScenarioError: the weights are of another kind of selector, or for other clients.
    """
    file = read_weights(name)
    if file.kind != kind:
        raise ScenarioError(
            f"server.selector.weights: {quoted(name)} has weights of {quoted(file.kind)}, not of"
            f" {quoted(kind)}; name a file of this kind"
        )
    if ANY_CLIENTS in file.weights:
        return dict(file.weights[ANY_CLIENTS])
    if fleet.clients_hash is None:
        # The check of a scenario has no fleet yet; any weights show its faults.
        return dict(next(iter(file.weights.values())))
    if fleet.clients_hash not in file.weights:
        raise ScenarioError(
            f"server.selector.weights: {quoted(name)} was learned on other clients"
            f" ({len(file.weights)} fleet(s), none with this fleet, data and seed of clients); set"
            " fleet.seed to that of the training, or train with `fleetsim selector train`"
        )
    return dict(file.weights[fleet.clients_hash])


def weights_of(selector: Settings) -> str | None:
    """Return the name or path of the weight file in the settings of a selector, if there is one."""
    is_learning = hasattr(type(selector), "weights_are_for")
    name = getattr(selector, "weights", None)
    return name if is_learning and isinstance(name, str) else None


def weights_sha256(name: str) -> str:
    """Return the SHA-256 of a weight file.

    Raises:
        DataError: there is none, or it cannot be read.
    """
    return hashlib.sha256(paths.read(_path(name))).hexdigest()


def _path(name: str) -> Path:
    path = bundled.find("weights", name)
    if path is None:
        raise DataError(f"server.selector.weights: {bundled.not_found('weights', name)}")
    return path
