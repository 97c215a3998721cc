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
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.content_hash import content_sha256
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


def test_half_precision_becomes_float32():
    items = Items([(torch.tensor([0.5, 1.0], dtype=torch.bfloat16), 1)])

    loaded = dataset(items, items, num_classes=2).load()

    assert np.asarray(loaded.train_inputs).tolist() == [[0.5, 1.0]]
    assert np.asarray(loaded.train_inputs).dtype == np.float32


# --- images, tokens, features ---------------------------------------------------------------------

PIXELS = np.arange(2 * 2 * 4 * 3, dtype=np.uint8).reshape(2, 2, 4, 3)
"""Two images [height 2, width 4, 3 colours]."""


@pytest.mark.parametrize(
    "images",
    [
        PIXELS,
        PIXELS.transpose(0, 3, 1, 2),
        list(PIXELS),
        torch.tensor(PIXELS),
        [Image.fromarray(one) for one in PIXELS],
    ],
    ids=["colours last", "colours first", "arrays", "tensor", "pictures"],
)
def test_images_of_bytes_stay_bytes_with_the_colours_first(images):
    labels = np.array([0, 1])
    part = (images, labels) if hasattr(images, "dtype") else list(zip(images, labels, strict=True))

    inputs = dataset(part, part).load().train_inputs

    assert isinstance(inputs, ByteImages)
    assert inputs.shape == (2, 3, 2, 4)
    assert inputs.pixels[1, 2, 0, 3] == PIXELS[1, 0, 3, 2]
    assert inputs[:][1, 2, 0, 3] == np.float32(PIXELS[1, 0, 3, 2]) / np.float32(255)


def test_narrow_images_with_the_colours_first_stay_so():
    narrow = np.arange(2 * 3 * 5 * 3, dtype=np.uint8).reshape(2, 3, 5, 3)

    inputs = dataset(((narrow, np.array([0, 1])),) * 2).load().train_inputs

    assert isinstance(inputs, ByteImages)
    np.testing.assert_array_equal(inputs.pixels, narrow)


@pytest.mark.parametrize("as_picture", [False, True])
def test_gray_images_get_a_channel(as_picture):
    gray = [Image.fromarray(one) if as_picture else one for one in PIXELS[..., 0]]

    loaded = dataset([(one, 0) for one in gray], [(gray[0], 1)]).load()

    assert loaded.train_inputs.shape == (2, 1, 2, 4)
    assert loaded.test_inputs.shape == (1, 1, 2, 4)


def test_whole_numbers_are_tokens_and_size_the_vocabulary():
    tokens, other = np.array([[1, 5], [2, 3]]), np.array([[0, 6]])

    loaded = dataset(((tokens, Y[:2]), (other, Y[:1]))).load()

    assert np.asarray(loaded.train_inputs).dtype == np.int64
    assert loaded.vocabulary_size == 7
    assert loaded.num_classes == 2


def test_labels_of_every_token_make_a_language_model():
    tokens = np.array([[1, 5], [2, 3]])

    loaded = dataset((tokens, tokens + 2), (tokens, tokens + 2)).load()

    assert loaded.train_labels.tolist() == [[3, 7], [4, 5]]
    assert loaded.num_classes == loaded.vocabulary_size == 8


def test_booleans_are_labels_and_features():
    table = pd.DataFrame({"on": [True, False], "label": [False, True]})
    loaded = dataset(table, test_fraction=0.5).load()

    values = dict(
        zip(loaded.train_labels.tolist(), loaded.train_inputs[:][:, 0].tolist(), strict=True)
    )
    values |= dict(zip(loaded.test_labels.tolist(), loaded.test_inputs[:, 0].tolist(), strict=True))
    assert values == {0: 1.0, 1: 0.0}


# --- names, clients, test part --------------------------------------------------------------------


def test_columns_are_named():
    table = frame(who=list("bbaaccab")).rename(columns={"label": "target"})

    loaded = dataset(
        table, table, inputs=["c", "a"], label="target", client="who", num_classes=5
    ).load()

    np.testing.assert_array_equal(loaded.train_inputs, X[:, [2, 0]].astype(np.float32))
    assert loaded.owner is not None
    assert loaded.owner.tolist() == [1, 1, 0, 0, 2, 2, 0, 1]
    assert loaded.num_classes == 5


def test_a_test_part_needs_no_clients():
    test = frame(TEST_X, TEST_Y)

    loaded = dataset(frame(who=[0, 0, 1, 1, 2, 2, 3, 3]), test, client="who").load()

    assert loaded.test_inputs.shape == (2, 3)
    assert loaded.owner is not None
    assert loaded.owner.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_places_in_tuples_are_named():
    items = [(int(y), "unused", x) for x, y in zip(X, Y, strict=True)]

    loaded = dataset(items, items, inputs=2, label=0).load()

    np.testing.assert_array_equal(loaded.train_inputs, X.astype(np.float32))


@pytest.mark.parametrize(
    ("data", "client"),
    [
        ((X, Y), np.array([7, 7, 3, 3, 3, 3, 9, 9])),
        (TensorDataset(torch.tensor(X), torch.tensor(Y)), list("eebbbbff")),
        ([(x, y, f"u{o}") for x, y, o in zip(X, Y, [4, 4, 1, 1, 1, 1, 8, 8], strict=True)], 2),
    ],
)
def test_clients_come_beside_the_samples_or_in_them(data, client):
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


# --- identity -------------------------------------------------------------------------------------


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

    assert first.sha256 == same.sha256
    assert other.sha256 != first.sha256


def test_images_with_other_bytes_have_another_digest():
    labels = np.array([0, 1])
    changed = PIXELS.copy()
    changed[1, 1, 1, 1] += 1

    test = (PIXELS, labels)
    one, two = (dataset((images, labels), test) for images in (PIXELS, changed))

    assert one.sha256 != two.sha256


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


# --- faults ---------------------------------------------------------------------------------------


class Failing(Items):
    def __getitem__(self, index):
        return X[index], int("no number") if index == 2 else 0


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self):
        return iter([])


class NoLength(TorchDataset):  # type: ignore[type-arg]
    def __getitem__(self, index):
        return X[0], 0


TEST = (TEST_X, TEST_Y)
FAULTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no form": (5, {}, "own: training part is of type int; expected a torch Dataset, a pair"),
    "one array": (X, {}, "is of type ndarray; expected"),
    "text": (b"text", {}, "is of type bytes; expected"),
    "stream": (Stream(), {}, "is of type Stream, which is read in order alone; give one with len"),
    "no length": (NoLength(), {}, "is of type NoLength; expected"),
    "third part": ({"train": 1, "test": 2, "valid": 3}, {"test": None},
        "'train', 'test', 'valid'; give the two"),
    "no test part": ((X, Y), {"test": None}, "has no test part; give .train, test., or"),
    "two test parts": ((X, Y), {"test_fraction": 0.5},
        "test_fraction: data set own has a test part"),
    "share": ((X, Y), {"test": None, "test_fraction": 0.01}, "test_fraction: 0.01 of every client"),
    "share range": ((X, Y), {"test": None, "test_fraction": 1.5},
        "test_fraction = 1.5: must be bet"),
    "class range": ((X, Y), {"num_classes": 1}, "num_classes = 1: must be 2 to 1000000"),
    "empty": ([], {}, "own: training part has no samples; give at least one"),
    "empty arrays": ((X[:0], Y[:0]), {}, "own: training part has no samples"),
    "lengths": ((X, Y[:5]), {}, "has 8 inputs and 5 labels; give one label per input"),
    "column lengths": ({"x": X, "label": Y[:5]}, {}, r"unequal lengths \(x 8, label 5\)"),
    "shape": ([(np.zeros(3), 0), (np.zeros(3), 0), (np.zeros(2), 1)], {},
        r"inputs: sample 2 has shape \(2,\), sample 0 has \(3,\); make all alike"),
    "sort": ([(np.zeros(3), 0), (np.zeros(3, int), 1)], {},
        "sample 1 holds int64, sample 0 holds f"),
    "ragged": ([([[1.0], [1.0, 2.0]], 0)], {}, "sample 0 is a list of unequal lengths; cut or pad"),
    "words": ([("word", 0)], {}, "sample 0 is of type str; expected numbers"),
    "no axis": ((Y.astype(float), Y), {}, r"inputs has shape \(8,\); expected one sample per row"),
    "whole numbers": ((np.zeros((8, 2, 2), int), Y), {},
        "int64 of shape .8, 2, 2.; images are uint8"),
    "negative token": ((Y[:, None] - 1, Y), {}, "tokens are numbered from 0; it holds -1"),
    "NaN": ((np.where(X[3] == X, np.nan, X), Y), {}, "inputs: sample 3 holds a number that is NaN"),
    "too large": ((np.where(X[3] == X, 1e300, X), Y), {}, "sample 3 .* not finite as float32"),
    "palette": ([(Image.new("P", (3, 3)), 0)], {},
        "sample 0 is a picture of mode 'P'; expected L or"),
    "negative label": ((X, Y - 1), {}, "own: training part: labels: it holds the label -1"),
    "negative label of the test part": ((X, Y), {"test": (TEST_X, TEST_Y - 1)},
        "test part: labels: it ho"),
    "label out of range": ((X, Y), {"num_classes": 2},
        "labels: label 2 of sample 2 is outside 0..1"),
    "float label": ((X, Y.astype(float)), {},
        "labels holds float64 of shape .8,.; labels are whole"),
    "one-hot": ((X, np.eye(3)[Y]), {}, "they look one-hot, give labels.argmax"),
    "label shapes": ([(X[0], 0), (X[1], [0])], {},
        r"item 1 has a label of shape \(1,\), item 0 one"),
    "item": (Items([X[0]]), {}, "item 0 is of type ndarray; expected .sample, label."),
    "triple": ([(X[0], 0, 0)], {},
        "item 0 is a tuple of 3, not .sample, label.; name their places"),
    "no label": ([{"x": X[0], "y": 0}], {},
        "item 0 has columns 'x', 'y', and not one called label"),
    "no such label": (frame(), {"label": "z"},
        "label='z': data set own: training part has columns"),
    "no such input": (frame(), {"inputs": "z"}, "inputs='z': data set own"),
    "no such client": (frame(), {"client": "z"}, "client='z': data set own"),
    "no inputs": (frame()[["label"]], {}, "has columns 'label', and none is left for the inputs"),
    "names for arrays": ((X, Y), {"label": "y"}, "label='y': .* is a pair of arrays"),
    "client for arrays": ((X, Y), {"client": "y"}, "client='y': .* is a pair of arrays"),
    "words in columns": (frame(word="x"), {}, "column 'word' holds .*; several columns of inputs"),
    "client lengths": ((X, Y), {"client": Y[:4]},
        "client is for 4 samples, but there are 8 inputs"),
    "client missing": ((X, Y), {"client": ["a", None, *"bcdefg"]},
        "client: sample 1 has no client; fill it or remove it"),
    "fault of the data": (Failing(list(X)), {},
        r"item 2 fails: ValueError: invalid .* \(.*test_user_"),
    "fault of the transform": ((X, Y), {"transform": lambda x: x[5]},
        "transform of item 0 fails: IndexError"),
    "parts differ": ((X[:, :2], Y), {}, r"test part: inputs: samples of shape \(3,\) and float32"),
    "standardised tokens": ((Y[:, None], Y), {"test": (Y[:, None], Y), "standardise": True},
        "standardise: .* holds tokens, which have no mean; leave it out"),
    "standardised at access": ((X, Y), {"standardise": True, "transform_each_access": True},
        "standardise: samples are made at each access"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_that_names_the_place(fault):
    data, options, message = FAULTS[fault]
    options = {"test": TEST} | options

    with pytest.raises(FleetsimError, match=message) as raised:
        dataset(data, options.pop("test"), **options).load()

    assert isinstance(raised.value, DataError | ScenarioError)
    assert "\n" not in str(raised.value)


# --- draws ----------------------------------------------------------------------------------------

DRAWS: dict[str, Callable[[Any], Any]] = {
    "random": lambda x: x + random.random(),
    "numpy": lambda x: x + np.random.rand(),  # noqa: NPY002
    "torch": lambda x: x + torch.rand(1).item(),
}


@pytest.mark.parametrize("generator", DRAWS)
def test_a_sample_that_is_drawn_is_not_frozen_without_a_word(generator):
    with pytest.raises(DataError, match=f"item 0 draws from .* {generator}, but is read once; set"):
        dataset((X, Y), TEST, transform=DRAWS[generator]).load()


def test_late_draws_are_found():
    many = np.zeros((1200, 2))

    class Late(Items):
        def __getitem__(self, index):
            return many[index] + (torch.rand(1).item() if index == 700 else 0.0), 0

    with pytest.raises(DataError, match=r"one of items 501 to 1000 draws from .* torch"):
        dataset(Late(list(many)), TEST).load()


def test_a_drawn_test_part_is_refused():
    with pytest.raises(DataError, match=r"test part: item 0 draws .*; the test part is fixed"):
        dataset(((X, Y), TEST), transform=DRAWS["torch"], transform_each_access=True).load()


@pytest.mark.parametrize("each_access", [False, True])
def test_reading_leaves_the_global_generators_as_they_are(each_access):
    before = (
        random.getstate(),
        np.random.get_state(legacy=False)["state"]["key"].tolist(),  # noqa: NPY002
        torch.get_rng_state(),
    )

    own = dataset(
        ((X, Y), TEST),
        transform=DRAWS["torch"] if each_access else None,
        test_transform=lambda x: x,
        transform_each_access=each_access,
    )
    own.load()

    assert random.getstate() == before[0]
    assert np.random.get_state(legacy=False)["state"]["key"].tolist() == before[1]  # noqa: NPY002
    assert torch.get_rng_state().equal(before[2])
