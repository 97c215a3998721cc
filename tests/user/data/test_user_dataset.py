"""The user's own data as Python programs have them: every form, every option, every fault."""

import random  # noqa: TID251 - the user's transform draws from it
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, Subset, TensorDataset

from fleetsim.errors import DataError, FleetsimError, ScenarioError
from fleetsim.learning.data.dataset import ByteImages, content_sha256
from fleetsim.user.data.user_dataset import dataset

X = np.arange(24, dtype=np.float64).reshape(8, 3) / 7
Y = np.array([0, 1, 2, 0, 1, 2, 0, 1])
TEST_X, TEST_Y = X[:2] + 1, Y[:2]


class Items(TorchDataset):  # type: ignore[type-arg]
    """Map-style data set of any items."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def frame(x=X, y=Y, **columns):
    return pd.DataFrame(x, columns=["a", "b", "c"]).assign(label=y, **columns)


FORMS = {
    "arrays": (X, Y),
    "float32 arrays": (X.astype(np.float32), Y.astype(np.uint16)),
    "tensors": (torch.tensor(X), torch.tensor(Y)),
    "TensorDataset": TensorDataset(torch.tensor(X), torch.tensor(Y)),
    "Subset": Subset(TensorDataset(torch.tensor(X), torch.tensor(Y)), range(8)),
    "list of pairs": list(zip(X.tolist(), Y.tolist(), strict=True)),
    "dictionaries": Items([{"x": x, "label": y} for x, y in zip(X, Y, strict=True)]),
    "frame": frame(),
    "mapping of columns": {"x": X, "label": Y},
    "frame of vectors": pd.DataFrame({"x": list(X), "label": Y}),
    "mapping of numbers": {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": Y.tolist()},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same_samples(form):
    loaded = dataset(FORMS[form], (TEST_X, TEST_Y)).load()

    assert np.asarray(loaded.train_inputs).dtype == np.float32
    np.testing.assert_array_equal(loaded.train_inputs, X.astype(np.float32))
    assert loaded.train_labels.dtype == np.int64
    assert loaded.train_labels.tolist() == Y.tolist()
    assert loaded.num_classes == 3
    assert loaded.owner is None


@pytest.mark.parametrize(
    "data",
    [
        ((X, Y), (TEST_X, TEST_Y)),
        {"train": (X, Y), "test": (TEST_X, TEST_Y)},
        (frame(), frame(TEST_X, TEST_Y)),
        OrderedDict(test=frame(TEST_X, TEST_Y), train=frame()),
    ],
)
def test_both_parts_come_as_a_pair_or_by_name(data):
    loaded = dataset(data).load()

    np.testing.assert_array_equal(loaded.train_inputs, X.astype(np.float32))
    np.testing.assert_array_equal(loaded.test_inputs, TEST_X.astype(np.float32))
    assert loaded.test_labels.tolist() == [0, 1]


PIXELS = np.arange(2 * 2 * 4 * 3, dtype=np.uint8).reshape(2, 2, 4, 3)
"""Two images [height 2, width 4, 3 colours]."""
FIRST = PIXELS.transpose(0, 3, 1, 2)
NARROW = np.arange(2 * 3 * 5 * 3, dtype=np.uint8).reshape(2, 3, 5, 3)
GRAY = PIXELS[..., 0]
IMAGES: dict[str, tuple[Any, Any]] = {
    "colours last": (PIXELS, FIRST),
    "colours first": (FIRST, FIRST),
    "narrow with the colours first": (NARROW, NARROW),
    "arrays": (list(PIXELS), FIRST),
    "tensor": (torch.tensor(PIXELS), FIRST),
    "pictures": ([Image.fromarray(one) for one in PIXELS], FIRST),
    "gray": (list(GRAY), GRAY[:, None]),
    "gray pictures": ([Image.fromarray(one) for one in GRAY], GRAY[:, None]),
}


@pytest.mark.parametrize("form", IMAGES)
def test_images_of_bytes_stay_bytes_with_the_colours_first(form):
    images, expected = IMAGES[form]
    labels = np.array([0, 1])
    part = (images, labels) if hasattr(images, "dtype") else list(zip(images, labels, strict=True))

    loaded = dataset(part, part).load()

    assert isinstance(loaded.train_inputs, ByteImages)
    np.testing.assert_array_equal(loaded.train_inputs.pixels, expected)
    scaled = expected.astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(loaded.train_inputs[:], scaled)
    np.testing.assert_array_equal(loaded.test_inputs, scaled)


def test_whole_numbers_are_tokens_and_labels_of_each_make_a_language_model():
    tokens, other = np.array([[1, 5], [2, 3]]), np.array([[0, 6]])

    loaded = dataset(((tokens, Y[:2]), (other, Y[:1]))).load()
    next_tokens = dataset((tokens, tokens + 2), (tokens, tokens + 2)).load()

    assert np.asarray(loaded.train_inputs).dtype == np.int64
    assert (loaded.vocabulary_size, loaded.num_classes) == (7, 2)
    assert next_tokens.train_labels.tolist() == [[3, 7], [4, 5]]
    assert next_tokens.num_classes == next_tokens.vocabulary_size == 8


def test_half_precision_and_booleans_become_float32_and_booleans_are_labels():
    items = Items([(torch.tensor([0.5, 1.0], dtype=torch.bfloat16), 1)])
    half = np.asarray(dataset(items, items, num_classes=2).load().train_inputs)
    assert (half.tolist(), half.dtype) == ([[0.5, 1.0]], np.dtype(np.float32))

    table = pd.DataFrame({"on": [True, False], "label": [False, True]})
    loaded = dataset(table, test_fraction=0.5).load()

    values = dict(
        zip(loaded.train_labels.tolist(), loaded.train_inputs[:][:, 0].tolist(), strict=True)
    )
    values |= dict(zip(loaded.test_labels.tolist(), loaded.test_inputs[:, 0].tolist(), strict=True))
    assert values == {0: 1.0, 1: 0.0}


def test_columns_of_tables_and_places_in_tuples_are_named():
    table = frame(who=list("bbaaccab")).rename(columns={"label": "target"})
    items = [(int(y), "unused", x) for x, y in zip(X, Y, strict=True)]
    names: dict[str, Any] = {"inputs": ["c", "a"], "label": "target", "client": "who"}

    columns = dataset(table, table, num_classes=5, **names).load()
    places = dataset(items, items, inputs=2, label=0).load()

    np.testing.assert_array_equal(columns.train_inputs, X[:, [2, 0]].astype(np.float32))
    assert columns.owner is not None
    assert (columns.owner.tolist(), columns.num_classes) == ([1, 1, 0, 0, 2, 2, 0, 1], 5)
    np.testing.assert_array_equal(places.train_inputs, X.astype(np.float32))


@pytest.mark.parametrize(
    ("data", "client"),
    [
        ((X, Y), np.array([7, 7, 3, 3, 3, 3, 9, 9])),
        (TensorDataset(torch.tensor(X), torch.tensor(Y)), list("eebbbbff")),
        ([(x, y, f"u{o}") for x, y, o in zip(X, Y, [4, 4, 1, 1, 1, 1, 8, 8], strict=True)], 2),
        (frame(who=[2, 2, 0, 0, 0, 0, 3, 3]), "who"),
    ],
)
def test_clients_come_beside_the_samples_or_in_them_and_a_test_part_needs_none(data, client):
    loaded = dataset(data, (TEST_X, TEST_Y), client=client).load()

    assert loaded.owner is not None
    assert loaded.owner.tolist() == [1, 1, 0, 0, 0, 0, 2, 2]


def test_a_share_of_every_clients_samples_is_for_testing():
    client = np.array([0, 0, 0, 0, 1, 1, 1, 1])

    one, two = (dataset((X, Y), client=client, test_fraction=0.25).load() for _ in range(2))

    assert one.owner is not None
    assert one.owner.tolist() == [0, 0, 0, 1, 1, 1]
    both = np.concatenate([np.asarray(one.train_inputs), one.test_inputs])
    assert sorted(both[:, 0]) == sorted(X[:, 0].astype(np.float32))
    assert content_sha256(one) == content_sha256(two)


def test_features_are_standardised_by_the_training_part():
    train, test = np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[4.0, 6.0]])

    loaded = dataset(((train, Y[:2]), (test, Y[:1])), standardise=True).load()

    assert np.asarray(loaded.train_inputs).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert loaded.test_inputs.tolist() == [[2.0, 1.0]]
    assert train.tolist() == [[1.0, 5.0], [3.0, 5.0]]


def test_transforms_act_on_their_part():
    both = ((X, Y), (TEST_X, TEST_Y))

    alike = dataset(both, transform=lambda x: x * 2).load()
    unlike = dataset(both, transform=lambda x: x * 2, test_transform=lambda x: x + 1).load()

    np.testing.assert_array_equal(alike.train_inputs, (X * 2).astype(np.float32))
    np.testing.assert_array_equal(alike.test_inputs, (TEST_X * 2).astype(np.float32))
    np.testing.assert_array_equal(unlike.train_inputs, alike.train_inputs)
    np.testing.assert_array_equal(unlike.test_inputs, (TEST_X + 1).astype(np.float32))


@pytest.mark.parametrize(
    "other",
    [
        dataset(((X + 1e-3, Y), (TEST_X, TEST_Y))),
        dataset(((X, Y[::-1].copy()), (TEST_X, TEST_Y))),
        dataset(((X, Y), (TEST_X + 1, TEST_Y))),
        dataset(((X, Y), (TEST_X, TEST_Y[::-1].copy()))),
        dataset(((X, Y), (TEST_X, TEST_Y)), client=Y),
        dataset(((X, Y), (TEST_X, TEST_Y)), num_classes=4),
        dataset(((X.reshape(8, 1, 3), Y), (TEST_X.reshape(2, 1, 3), TEST_Y))),
        dataset(((X, Y), (TEST_X, TEST_Y)), transform_each_access=True),
    ],
    ids=["inputs", "labels", "test-inputs", "test-labels", "clients", "classes", "shape", "access"],
)
def test_any_other_content_has_another_digest(other):
    same = dataset((TensorDataset(torch.tensor(X), torch.tensor(Y)), (TEST_X, TEST_Y)), name="b")
    first = dataset(((X, Y), (TEST_X, TEST_Y)))
    changed = PIXELS.copy()
    changed[1, 1, 1, 1] += 1
    images = {dataset(((each, Y[:2]), (PIXELS, Y[:2]))).sha256 for each in (PIXELS, changed)}

    assert first.sha256 == same.sha256
    assert other.sha256 != first.sha256
    assert len(images) == 2


def test_data_are_read_once():
    calls = []

    class Counted(Items):
        def __getitem__(self, index):
            calls.append(index)
            return super().__getitem__(index)

    own = dataset(Counted([(x, 0) for x in X]), test_fraction=0.5)
    own.load(), own.load(), own.sha256

    assert calls == list(range(8))


@pytest.mark.slow
def test_arrays_and_frames_need_no_torch():
    program = (
        "import sys, numpy as np, pandas as pd\n"
        "from fleetsim.user.data.user_dataset import dataset\n"
        "dataset((np.eye(4), np.arange(4)), test_fraction=0.5).load()\n"
        "table = pd.DataFrame({'a': [1.0, 2.0], 'label': [0, 1]})\n"
        "dataset(table, test_fraction=0.5).load()\n"
        "assert 'torch' not in sys.modules and 'datasets' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


class Failing(Items):
    def __getitem__(self, index):
        return X[index], int("no number") if index == 2 else 0


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self):
        return iter([])


class NoLength(TorchDataset):  # type: ignore[type-arg]
    def __getitem__(self, index):
        return X[0], 0


TEST, TOKENS, ANEW = (TEST_X, TEST_Y), (Y[:, None], Y), {"transform_each_access": True}
FAULTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no form": (5, {}, "own: training part is of type int; expected a torch Dataset, a pair"),
    "one array": (X, {}, "is of type ndarray; expected"),
    "text": (b"text", {}, "is of type bytes; expected"),
    "stream": (Stream(), {}, "is of type Stream, which is read in order alone; give one with len"),
    "no length": (NoLength(), {}, "is of type NoLength; expected"),
    "third part": ({"train": 1, "test": 2, "b": 3}, {"test": None}, "'test', 'b'; give the two"),
    "no test part": ((X, Y), {"test": None}, "no test part; give fleetsim.dataset .train, test"),
    "two test parts": ((X, Y), {"test_fraction": 0.5}, "test_fraction: data set own has a"),
    "share": ((X, Y), {"test": None, "test_fraction": 0.01}, "test_fraction: 0.01 of every client"),
    "share range": ((X, Y), {"test": None, "test_fraction": 1.5}, "= 1.5: must be a number >="),
    "class range": ((X, Y), {"num_classes": 1}, "= 1: must be a whole number >= 2"),
    "empty": ([], {}, "own: training part has no samples; give at least one"),
    "lengths": ((X, Y[:5]), {}, "has 8 inputs and 5 labels; give one label per input"),
    "column lengths": ({"x": X, "label": Y[:5]}, {}, r"unequal lengths \(x 8, label 5\)"),
    "shape": ([(np.zeros(n), 0) for n in (3, 3, 2)], {}, r"sample 2 has shape \(2,\), sample 0"),
    "sort": ([(np.zeros(3), 0), (np.zeros(3, int), 1)], {}, "sample 1 holds int64, sample 0"),
    "ragged": ([([[1.0], [1.0, 2.0]], 0)], {}, "sample 0 is a list of unequal lengths; cut or pad"),
    "words": ([("word", 0)], {}, "sample 0 is of type str; expected numbers"),
    "no axis": ((Y.astype(float), Y), {}, r"inputs has shape \(8,\); expected one sample per row"),
    "whole numbers": ((np.zeros((8, 2, 2), int), Y), {}, ".8, 2, 2.; images are uint8"),
    "negative token": ((Y[:, None] - 1, Y), {}, "tokens are numbered from 0; it holds -1"),
    "NaN": ((np.where(X[3] == X, np.nan, X), Y), {}, "inputs: sample 3 holds a number that is NaN"),
    "too large": ((np.where(X[3] == X, 1e300, X), Y), {}, "sample 3 .* not finite as float32"),
    "palette": ([(Image.new("P", (3, 3)), 0)], {}, "sample 0 is a picture of mode 'P'; expected"),
    "negative label": ((X, Y - 1), {}, "own: training part: labels: it holds the label -1"),
    "test label": ((X, Y), {"test": (TEST_X, TEST_Y - 1)}, "test part: labels: it ho"),
    "label out of range": ((X, Y), {"num_classes": 2}, "label 2 of sample 2 is outside 0..1"),
    "float label": ((X, Y.astype(float)), {}, "labels holds float64 of shape .8,.; labels"),
    "one-hot": ((X, np.eye(3)[Y]), {}, "they look one-hot, give labels.argmax"),
    "label shapes": ([(X[0], 0), (X[1], [0])], {}, r"item 1 has a label of shape \(1,\)"),
    "item": (Items([X[0]]), {}, "item 0 is of type ndarray; expected .sample, label."),
    "triple": ([(X[0], 0, 0)], {}, "is a tuple of 3, not .sample, label.; name their places"),
    "no label": ([{"x": X[0], "y": 0}], {}, "item 0 has columns 'x', 'y', and not one called"),
    "no such label": (frame(), {"label": "z"}, "label='z': data set own: training part"),
    "no such input": (frame(), {"inputs": "z"}, "inputs='z': data set own"),
    "no such client": (frame(), {"client": "z"}, "client='z': data set own"),
    "no inputs": (frame()[["label"]], {}, "has columns 'label', and none is left for the inputs"),
    "names for arrays": ((X, Y), {"label": "y"}, "label='y': .* is a pair of arrays"),
    "client for arrays": ((X, Y), {"client": "y"}, "client='y': .* is a pair of arrays"),
    "words in columns": (frame(word="x"), {}, "column 'word' holds .*; several columns of inputs"),
    "client lengths": ((X, Y), {"client": Y[:4]}, "client is for 4 samples, but there are 8"),
    "client missing": ((X, Y), {"client": ["a", None, *"bcdefg"]}, "sample 1 has no client; fill"),
    "fault of the data": (Failing(list(X)), {}, r"item 2 fails: ValueError: .* \(.*test_user_"),
    "transform": ((X, Y), {"transform": lambda x: x[5]}, "transform of item 0 fails: Index"),
    "parts differ": ((X[:, :2], Y), {}, r"test part: inputs: samples of shape \(3,\) and float32"),
    "mean of tokens": (TOKENS, {"test": TOKENS, "standardise": True}, "no mean; leave it out"),
    "mean at access": ((X, Y), {"standardise": True, **ANEW}, "samples are made at each access"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_that_names_the_place(fault):
    data, options, message = FAULTS[fault]
    options = {"test": TEST} | options

    with pytest.raises(FleetsimError, match=message) as raised:
        dataset(data, options.pop("test"), **options).load()

    assert isinstance(raised.value, DataError | ScenarioError)
    assert "\n" not in str(raised.value)


DRAWS: dict[str, Callable[[Any], Any]] = {
    "random": lambda x: x + random.random(),
    "numpy": lambda x: x + np.random.rand(),  # noqa: NPY002
    "torch": lambda x: x + torch.rand(1).item(),
}


class Late(Items):
    def __getitem__(self, index):
        return np.zeros(2) + (torch.rand(1).item() if index == 700 else 0.0), 0


FROZEN: list[tuple[Any, dict[str, Any], str]] = [
    *(((X, Y), {"transform": draw}, f"item 0 draws from .* {name}, but is read once; set")
        for name, draw in DRAWS.items()),
    (Late(range(1200)), {}, r"one of items 501 to 1000 draws from .* torch"),
    ((X, Y), {"transform": DRAWS["torch"], **ANEW},
        r"test part: item 0 draws .*; the test part is fixed"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "options", "message"), FROZEN)
def test_a_sample_that_is_drawn_is_not_frozen_without_a_word(data, options, message):
    with pytest.raises(DataError, match=message):
        dataset(data, TEST, **options).load()


@pytest.mark.parametrize("each_access", [False, True])
def test_reading_leaves_the_global_generators_as_they_are(each_access):
    def states():
        numpys = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
        return random.getstate(), numpys.tolist(), torch.get_rng_state().tolist()

    before = states()
    options: dict[str, Any] = {"transform": DRAWS["torch"], **ANEW} if each_access else {}
    dataset(((X, Y), TEST), test_transform=lambda x: x, **options).load()

    assert states() == before
