"""Check of a data set that the user's code made itself."""

from typing import Any

import numpy as np

from fleetsim.learning.data.dataset import ByteImages, Dataset

_NUMBERS = (np.dtype(np.float32), np.dtype(np.int64))


def dataset_fault(dataset: Dataset) -> str | None:
    """Return what is wrong with the arrays of a data set, beginning with `whose`; None if nothing.

    `fleetsim.learning.data.dataset.Dataset` says what they are.
    """
    if dataset.accessed is not None:
        return "whose accessed is set; return fleetsim.dataset(..., transform_each_access=True)"
    for part in ("train", "test"):
        inputs = getattr(dataset, f"{part}_inputs")
        labels = getattr(dataset, f"{part}_labels")
        message = _part_fault(part, inputs, labels, dataset.num_classes)
        if message is not None:
            return f"whose {message}"
    for name in ("inputs", "labels"):
        train, test = (getattr(dataset, f"{part}_{name}").shape[1:] for part in ("train", "test"))
        if train != test:
            return f"whose test_{name} are of shape {test} each, and train_{name} of {train}"
    return _owner_fault(dataset) or _token_fault(dataset)


def _part_fault(part: str, inputs: Any, labels: Any, num_classes: int) -> str | None:
    is_bytes = isinstance(inputs, ByteImages) and part == "train"
    if not is_bytes and not (isinstance(inputs, np.ndarray) and inputs.dtype in _NUMBERS):
        return f"{part}_inputs are {_described(inputs)}, not an array of float32 or int64"
    if len(inputs.shape) < 2:
        return f"{part}_inputs have shape {inputs.shape}; give one sample per row"
    if not isinstance(labels, np.ndarray) or labels.dtype != np.int64:
        return f"{part}_labels are {_described(labels)}, not an array of int64"
    if len(labels) != len(inputs) or len(labels) == 0:
        return f"{part} part has {len(inputs)} inputs and {len(labels)} labels"
    if labels.ndim not in (1, 2):
        return f"{part}_labels have shape {labels.shape}, not [n] or [n, t]"
    if labels.min() < 0 or labels.max() >= num_classes:
        return (
            f"{part}_labels are {labels.min()} to {labels.max()}, outside 0 to {num_classes - 1}"
            " (num_classes - 1)"
        )
    if not is_bytes and inputs.dtype == np.float32 and not np.isfinite(inputs).all():
        rows = np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
        return f"{part}_inputs hold NaN or an infinite number in sample {rows.argmin()}"
    return None


def _owner_fault(dataset: Dataset) -> str | None:
    owner: Any = dataset.owner
    num, names = len(dataset.train_labels), dataset.owner_names
    if owner is None:
        return None
    if not isinstance(owner, np.ndarray) or owner.dtype != np.int64 or owner.shape != (num,):
        return f"whose owner is {_described(owner)}, not int64 of shape ({num},)"
    if not np.array_equal(np.unique(owner), np.arange(owner.max() + 1)):
        return "whose owner skips a number; clients are 0, 1, 2 ..."
    if names is not None and len(names) != owner.max() + 1:
        return f"whose owner_names are {len(names)} for {owner.max() + 1} clients"
    return None


def _token_fault(dataset: Dataset) -> str | None:
    size = dataset.vocabulary_size
    inputs = dataset.train_inputs
    if isinstance(inputs, ByteImages) or inputs.dtype != np.int64:
        return None if size is None else "whose vocabulary_size is for tokens, int64 inputs"
    if size is None:
        return "whose inputs are tokens; give vocabulary_size"
    for part in (inputs, dataset.test_inputs):
        if part.min() < 0 or part.max() >= size:
            return f"whose tokens are {part.min()} to {part.max()}, outside 0 to {size - 1}"
    return None


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"of type {type(value).__name__}"
