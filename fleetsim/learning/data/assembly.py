"""Assembly of the user's own data set from its parts: test part, classes, numbers, clients."""

from dataclasses import dataclass, replace

import numpy as np

from fleetsim.counts import floor_product
from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.accessed_inputs import AccessedInputs
from fleetsim.learning.data.checked_part import Array, CheckedPart
from fleetsim.learning.data.dataset import ByteImages, Dataset, Inputs
from fleetsim.learning.data.standardisation import from_pixels, moments_in, scaled, standardise
from fleetsim.rng import stream

_SPLIT_SEED = 0


@dataclass(frozen=True, slots=True)
class AssemblyRules:
    """Options of the user besides the samples."""

    test_fraction: float | None = None
    """Share of every client's training samples that becomes the test part; None: there is one."""
    standardise: bool = False
    """Scale every channel or feature to mean 0 and standard deviation 1 over the training part."""
    num_classes: int | None = None
    """Number of labels; None: the largest label of both parts plus one."""


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
