"""The user's own data set: the arrays of its parts, checked, and its assembly from them.

Errors name the place, the array and the first bad sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.counts import floor_product
from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import (
    AccessedInputs,
    ByteImages,
    Dataset,
    Inputs,
    from_pixels,
    moments_in,
    scaled,
    standardise,
)
from fleetsim.rng import stream
from fleetsim.schema.ranges import PartFraction
from fleetsim.settings import Settings

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
    if array.dtype.kind in "UO":
        return f"number them, and {verb} np.unique(labels, return_inverse=True)[1]"
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


_SPLIT_SEED = 0


class AssemblyRules(Settings):
    """Options of the user besides the samples."""

    test_fraction: PartFraction | None = None
    """Share of every client's training samples, drawn at random but the same for every seed, that
    becomes the test part; for a data set without one, and only for such."""
    standardise: bool = False
    """Scale every channel of images, or every feature of vectors, to mean 0 and standard deviation
    1 over the training part."""
    num_classes: Annotated[int, Field(ge=2, le=MAX_CLASSES)] | None = None
    """Number of labels; by default the largest label of both parts plus one."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Words of errors that depend on where the data come from."""

    place: str
    """Name of the data set, such as its folder."""
    keys: str
    """Beginning of a key: `task.dataset.` in a scenario, nothing for an argument."""
    how_to_test: str
    """Hint for a set without a test part, beside the fraction."""


def assembled(
    name: str, train: CheckedPart, test: CheckedPart | None, rules: AssemblyRules, words: Wording
) -> Dataset:
    """Return the data set of checked parts; a missing test part is drawn from the training part."""
    if test is None:
        train, test = _draw_test_part(train, rules, words)
    elif rules.test_fraction is not None:
        raise ScenarioError(
            f"{words.keys}test_fraction: {words.place} has a test part of its own; leave"
            f" {'the key' if words.keys else 'it'} out"
        )
    test_inputs = test.inputs
    if isinstance(test_inputs, AccessedInputs):
        test_inputs = test_inputs.fixed(
            hint="the test part is read once: take what draws out, or give test_transform"
        )
        test = replace(test, inputs=test_inputs)
    _require_alike(train, test)
    holds_tokens = train.inputs.dtype == np.int64
    num_classes = _num_classes(train, test, rules, words)
    vocabulary_size = None
    if holds_tokens:
        vocabulary_size = 1 + max(_largest(train.inputs), _largest(test.inputs))
        if train.labels.ndim > 1:
            # A language model's labels are tokens, and its tokens may be labels.
            num_classes = vocabulary_size = max(num_classes, vocabulary_size)
    if rules.standardise and holds_tokens:
        raise ScenarioError(
            f"{words.keys}standardise: {train.inputs_at} holds tokens, which have no mean; "
            f"leave {'the key' if words.keys else 'it'} out"
        )
    owner = owner_names = None
    if train.client is not None:
        names, number_of = np.unique(train.client, return_inverse=True)
        owner, owner_names = number_of.astype(np.int64), tuple(map(str, names.tolist()))
    accessed = None
    train_inputs: Inputs | ByteImages
    if isinstance(train.inputs, AccessedInputs):
        accessed = train.inputs
        if rules.standardise:
            raise ScenarioError(
                f"{words.keys}standardise: samples are made at each access; standardise them in the"
                " transform, and leave it out"
            )
        train_inputs = np.empty((len(accessed), 0), np.float32)
        test_inputs = scaled(test_inputs) if test_inputs.dtype == np.uint8 else test_inputs
    else:
        train_inputs, test_inputs = _as_numbers(
            train.inputs, test_inputs, is_standardised=rules.standardise
        )
    return Dataset(
        name=name,
        train_inputs=train_inputs,
        train_labels=train.labels,
        test_inputs=test_inputs,
        test_labels=test.labels,
        num_classes=num_classes,
        owner=owner,
        owner_names=owner_names,
        vocabulary_size=vocabulary_size,
        accessed=accessed,
    )


def _largest(inputs: Array | AccessedInputs) -> int:
    return int(inputs.largest if isinstance(inputs, AccessedInputs) else inputs.max())


def _require_alike(train: CheckedPart, test: CheckedPart) -> None:
    """Check that samples and labels of both parts have one form."""
    are_tokens = [part.inputs.dtype == np.int64 for part in (train, test)]
    if train.inputs.shape[1:] != test.inputs.shape[1:] or are_tokens[0] != are_tokens[1]:
        raise DataError(
            f"{test.inputs_at}: samples of shape {test.inputs.shape[1:]} and {test.inputs.dtype}, "
            f"those of {train.inputs_at} are of {train.inputs.shape[1:]} and {train.inputs.dtype}"
        )
    if train.labels.shape[1:] != test.labels.shape[1:]:
        raise DataError(
            f"{test.labels_at}: labels of shape {test.labels.shape}, those of {train.labels_at} are"
            f" {train.labels.shape}; save both parts alike"
        )


def _as_numbers(
    train: Array, test: Array, *, is_standardised: bool
) -> tuple[Inputs | ByteImages, Inputs]:
    """Return both parts as models take them; where both are bytes, training images stay bytes."""
    if train.dtype == test.dtype == np.uint8:
        mean, std = (0.0,) * train.shape[1], (1.0,) * train.shape[1]
        if is_standardised:
            mean, std = moments_in(train)
        return ByteImages(train, mean, std), from_pixels(test, mean=mean, std=std)
    train, test = (scaled(part) if part.dtype == np.uint8 else part for part in (train, test))
    if is_standardised:
        standardise(train, test)
    return train, test


def _num_classes(
    train: CheckedPart, test: CheckedPart, rules: AssemblyRules, words: Wording
) -> int:
    """Return the number that the user states, or the largest label plus one."""
    if rules.num_classes is None:
        return 1 + max(int(train.labels.max()), int(test.labels.max()))
    for part in (train, test):
        outside = np.argwhere(part.labels >= rules.num_classes)
        if outside.size:
            row = int(outside[0, 0])
            raise DataError(
                f"{part.labels_at}: label {int(part.labels[tuple(outside[0])])} of sample {row} is "
                f"outside 0..{rules.num_classes - 1}; raise {words.keys}num_classes or leave it out"
            )
    return rules.num_classes


def _draw_test_part(
    whole: CheckedPart, rules: AssemblyRules, words: Wording
) -> tuple[CheckedPart, CheckedPart]:
    """Return a training and a test part of every client's samples.

    The test part is rounded down, so that no client loses all samples. Without clients, all samples
    count as those of one. The draw has an address without the scenario's seed, so that all runs on
    a data set test on the same samples.
    """
    fraction = rules.test_fraction
    if fraction is None:
        raise DataError(
            f"{words.place} has no test part; {words.how_to_test}, or set "
            f"{words.keys}test_fraction to draw one"
        )
    client = np.zeros(len(whole.labels), np.int64) if whole.client is None else whole.client
    number_of = np.unique(client, return_inverse=True)[1]
    by_client = np.argsort(number_of, kind="stable")
    ends = np.cumsum(np.bincount(number_of))
    is_test = np.zeros(len(whole.labels), dtype=np.bool_)
    for number, members in enumerate(np.split(by_client, ends[:-1])):
        shuffled = stream(_SPLIT_SEED, "data/own-test", number).permutation(members)
        is_test[shuffled[: floor_product(fraction, len(members))]] = True
    if not is_test.any():
        raise ScenarioError(
            f"{words.keys}test_fraction: {fraction:g} of every client's samples in {words.place} is"
            " less than one; raise it"
        )
    return whole.rows(~is_test), whole.rows(is_test)
