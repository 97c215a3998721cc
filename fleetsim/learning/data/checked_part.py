"""Arrays of one part of the user's own data set, checked.

Errors name the place, the array and the first bad sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError

if TYPE_CHECKING:
    from fleetsim.learning.data.accessed_inputs import AccessedInputs

MAX_CLASSES = 1_000_000
_MAX_TOKENS = 10_000_000

Array = NDArray[Any]
"""Float32, int64 or, for images, uint8."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckedPart:
    """Checked arrays of one part of the set."""

    inputs: Array | AccessedInputs
    """Images of bytes stay bytes here."""
    labels: IntArray
    client: NDArray[Any] | None
    """Client of each sample [n], by its name or number in the source."""
    inputs_at: str
    """Name of the inputs in errors."""
    labels_at: str
    """Name of the labels in errors."""

    def rows(self, kept: NDArray[np.bool_]) -> CheckedPart:
        """Return the part with some of its samples."""
        client = None if self.client is None else self.client[kept]
        return replace(self, inputs=self.inputs[kept], labels=self.labels[kept], client=client)


def checked_part(
    inputs: Array | AccessedInputs,
    labels: NDArray[Any],
    client: NDArray[Any] | None,
    *,
    inputs_at: str,
    labels_at: str,
    client_at: str,
    verb: Literal["save", "give"],
) -> CheckedPart:
    """Return one part with checked inputs, once its labels and clients are checked, too.

    Inputs are as `finite`, `tokens` and the like return them. `inputs_at`, `labels_at` and
    `client_at` name the arrays in errors, and `verb` is what the user does to hand them over.
    """
    checked = _labels(labels, labels_at, inputs, verb)
    if client is not None:
        _check_client(client, client_at, len(inputs))
    return CheckedPart(inputs, checked, client, inputs_at, labels_at)


def finite(array: NDArray[Any], place: str) -> NDArray[np.float32]:
    """Return floats as float32."""
    # A float64 too large for a float32 becomes infinite, and is refused below.
    with np.errstate(over="ignore"):
        inputs = array.astype(np.float32)
    if not np.isfinite(inputs).all():
        row = int(np.flatnonzero(~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1))[0])
        raise DataError(
            f"{place}: sample {row} holds a number that is NaN or not finite as float32; "
            "fill or remove it"
        )
    return inputs


def tokens(array: NDArray[Any], place: str) -> IntArray:
    """Return tokens [n, t] as int64."""
    for token in (array.min(), array.max()):
        if not 0 <= token < _MAX_TOKENS:
            raise DataError(
                f"{place}: tokens are numbered from 0; it holds {token}; number them anew,"
                f" below {_MAX_TOKENS}"
            )
    return array.astype(np.int64)


def with_channel(inputs: Array) -> Array:
    """Return gray images [n, H, W] with a channel axis, other inputs as they are."""
    return inputs[:, None] if inputs.ndim == 3 else inputs


def _labels(
    array: NDArray[Any], place: str, inputs: Array | AccessedInputs, verb: Literal["save", "give"]
) -> IntArray:
    """Return checked labels [n], or [n, t] where the inputs are tokens [n, t]."""
    is_sequence = array.ndim == 2 and inputs.dtype == np.int64 and array.shape == inputs.shape
    if array.dtype.kind not in "iu" or not (array.ndim == 1 or is_sequence) or 0 in array.shape:
        allowed = "whole numbers [n]"
        if inputs.dtype == np.int64:
            allowed += f", or one per token {list(inputs.shape)}"
        raise DataError(
            f"{place} holds {array.dtype} of shape {array.shape}; labels are {allowed};"
            f" {_advice_on_labels(array, verb)}"
        )
    _check_length(array, place, len(inputs))
    for label in (array.min(), array.max()):
        if not 0 <= label < MAX_CLASSES:
            raise DataError(
                f"{place}: it holds the label {label}; they are numbered from 0 and end below "
                f"{MAX_CLASSES}"
            )
    return array.astype(np.int64)


def _advice_on_labels(array: NDArray[Any], verb: Literal["save", "give"]) -> str:
    """Return the advice for an array that is no labels [n]; nothing is converted by a guess."""
    if array.ndim == 2 and array.dtype.kind in "iufb" and 0 not in array.shape:
        if array.shape[1] == 1:
            return f"{verb} labels[:, 0].astype('int64')"
        if (np.count_nonzero(array, axis=1) == 1).all() and (array.max(axis=1) == 1).all():
            return f"they look one-hot, {verb} labels.argmax(axis=1)"
    return f"{verb} one whole number per sample"


def _check_client(array: NDArray[Any], place: str, num_samples: int) -> None:
    if array.dtype.kind not in "iuU" or array.ndim != 1:
        raise DataError(
            f"{place} holds {array.dtype} in {array.ndim} dimensions; clients are whole numbers or "
            "names, one per sample [n]"
        )
    _check_length(array, place, num_samples)


def _check_length(array: NDArray[Any], place: str, num_samples: int) -> None:
    if len(array) != num_samples:
        raise DataError(f"{place} is for {len(array)} samples, but there are {num_samples} inputs")
