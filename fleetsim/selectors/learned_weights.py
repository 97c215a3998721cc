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
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fleetsim import bundled
from fleetsim.contracts import FleetView, State
from fleetsim.errors import DataError, DivergenceError, ScenarioError
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.settings import Settings

ANY_CLIENTS = "any"
"""Key of weights that suit any clients."""
_TRAIN = "train with `fleetsim selector train"
_LENGTH_BYTE = 8
"""Bytes of a safetensors file that hold the length of its header."""


def require_finite(kind: str, layers: Mapping[str, NDArray[Any]]) -> None:
    """Refuse to go on with a network whose training diverged."""
    if not all(np.isfinite(layer).all() for layer in layers.values()):
        raise DivergenceError(
            f"server.selector.kind = {quoted(kind)}: weights of its network are not finite: its"
            " training diverged; lower server.selector.learning_rate"
        )


class _About(Settings):
    """Text of a weight file besides its arrays."""

    format: Literal["fleetsim selector weights 1"] = "fleetsim selector weights 1"
    kind: str
    facts: dict[str, str]


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
            f"{clients}/{name}": np.asarray(array, order="C")
            for clients, state in sorted(self.weights.items())
            for name, array in sorted(state.items())
        }
        about = _About(kind=self.kind, facts=dict(sorted(self.facts.items())))
        # One entry, as safetensors writes several in no fixed order.
        return save(arrays, metadata={"fleetsim": about.model_dump_json()})

    @classmethod
    def decoded(cls, data: bytes) -> WeightFile:
        """Return the content of a weight file."""
        try:
            arrays = load(data)
            length = int.from_bytes(data[:_LENGTH_BYTE], "little")
            header = json.loads(data[_LENGTH_BYTE : _LENGTH_BYTE + length])
            about = _About.model_validate_json(header["__metadata__"]["fleetsim"])
        except (SafetensorError, KeyError, TypeError, ValueError) as fault:
            raise ValueError("is no weight file of a selector") from fault
        weights: dict[str, State] = {}
        for key, array in sorted(arrays.items()):
            clients, _, name = key.partition("/")
            weights.setdefault(clients, {})[name] = array
        return cls(about.kind, weights, about.facts)


def read_weights(name: str) -> WeightFile:
    """Return the content of a bundled weight file or of one of the user's."""
    path = _path(name)
    try:
        return WeightFile.decoded(paths.read(path))
    except ValueError as fault:
        raise DataError(
            f"{path}: {fault}; `fleetsim selector train` writes one, or name another"
        ) from fault


def weights_for(name: str, kind: str, fleet: FleetView) -> State:
    """Return the arrays of a weight file for the clients of a fleet."""
    file = read_weights(name)
    for state in file.weights.values():
        for key, array in state.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise DataError(f"{_path(name)}: {key} is not finite; {_TRAIN} {file.kind}`")
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


def require_arrays(
    name: str,
    kind: str,
    weights: State,
    shapes: Mapping[str, tuple[int | None, ...]],
    dtype: type[np.generic] = np.float32,
) -> None:
    """Check that a weight file has arrays of one type of numbers and these shapes.

    A length of None may be any.
    """
    for key, shape in shapes.items():
        array = weights.get(key)
        expected = f"{np.dtype(dtype)} {shape}".replace("None", "any")
        if array is None:
            raise DataError(f"{_path(name)}: lacks the array {key}, {expected}; {_TRAIN} {kind}`")
        is_right = array.dtype == dtype and array.ndim == len(shape)
        if not is_right or any(
            length not in (None, actual) for length, actual in zip(shape, array.shape, strict=True)
        ):
            raise DataError(
                f"{_path(name)}: {key} is {array.dtype} {array.shape}, not {expected};"
                f" {_TRAIN} {kind}`"
            )


def weights_of(selector: Settings) -> str | None:
    """Return the name or path of the weight file in the settings of a selector, if there is one."""
    is_learning = hasattr(type(selector), "weights_are_for")
    name = getattr(selector, "weights", None)
    return name if is_learning and isinstance(name, str) else None


def weights_sha256(name: str) -> str:
    """Return the SHA-256 of a weight file."""
    return hashlib.sha256(paths.read(_path(name))).hexdigest()


def _path(name: str) -> Path:
    path = bundled.find("weights", name)
    if path is None:
        raise DataError(f"server.selector.weights: {bundled.not_found('weights', name)}")
    return path
