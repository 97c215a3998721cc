import contextlib
import gzip
import struct
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import ByteImages, Dataset
from fleetsim.learning.data.folder import FolderSettings
from fleetsim.learning.data.formats.npz import read_npz
from fleetsim.learning.data.loading import load_dataset
from tests.learning.data.stand_ins import idx

Arrays = Mapping[str, Any]

VECTORS: dict[str, Any] = {
    "inputs": np.arange(12, dtype=np.float64).reshape(6, 2),
    "labels": np.array([0, 1, 2, 0, 1, 2]),
}
TEST: dict[str, Any] = {"inputs": np.array([[5.0, 7.0]]), "labels": np.array([1])}


def save(path: Path, arrays: Arrays) -> Path:
    """An .npz file; Python objects too, which is how a careless one is written."""
    with zipfile.ZipFile(path, "w") as packed:
        for name, array in arrays.items():
            with packed.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=True)
    return path


def load(folder: Path, *, seed: int = 1, **keys: Any) -> Dataset:
    settings = FolderSettings(folder=str(folder), **keys)
    return load_dataset(settings, seed=seed, num_clients=2)


def changed(folder: Path, **changes: Any) -> Path:
    """A folder with both parts whose training part is fine but for the changes (None: left out)."""
    arrays = {name: array for name, array in (VECTORS | changes).items() if array is not None}
    save(folder / "train.npz", arrays)
    save(folder / "test.npz", TEST)
    return folder


def test_floats_are_used_as_they_are_and_classes_are_those_of_both_parts_or_as_told(tmp_path):
    data = load(changed(tmp_path))

    assert data.name == tmp_path.name
    assert np.asarray(data.train_inputs).tolist() == VECTORS["inputs"].tolist()
    assert data.test_inputs.tolist() == [[5, 7]]
    assert data.train_labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert (data.num_classes, data.owner, data.sample_shape) == (3, None, (2,))
    save(tmp_path / "test.npz", TEST | {"labels": np.array([7])})
    assert [load(tmp_path, num_classes=num).num_classes for num in (None, 10)] == [8, 10]


@pytest.mark.parametrize("shape", [(6, 2, 4), (6, 1, 2, 4), (6, 3, 2, 4)])
def test_bytes_are_images_in_fractions_of_one(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = np.full(shape, 51, np.uint8)
    for part in ("train", "test"):
        save(tmp_path / f"{part}.npz", {"images": pixels, "labels": VECTORS["labels"]})

    data = load(tmp_path)

    assert data.sample_shape == ((1, 2, 4) if len(shape) == 3 else shape[1:])
    assert isinstance(data.train_inputs, ByteImages)
    for inputs in (np.asarray(data.train_inputs), data.test_inputs):
        assert inputs.dtype == np.float32
        assert inputs == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("labels", "num_classes", "vocabulary_size"),
    # Of one label each token, 1..12: labels are tokens too.
    [(np.array([0, 1, 0]), 2, 12), (np.arange(1, 13).reshape(3, 4), 13, 13)],
)
def test_whole_numbers_are_tokens_and_a_label_may_be_a_sequence(
    tmp_path, labels, num_classes, vocabulary_size
):
    tokens = np.arange(12, dtype=np.int32).reshape(3, 4)
    save(tmp_path / "train.npz", {"inputs": tokens, "labels": labels})
    save(tmp_path / "test.npz", {"inputs": tokens[:1], "labels": labels[:1]})

    data = load(tmp_path)

    assert np.asarray(data.train_inputs).dtype == np.int64
    assert np.asarray(data.train_inputs).tolist() == tokens.tolist()
    assert data.train_labels.tolist() == labels.tolist()
    assert (data.num_classes, data.vocabulary_size) == (num_classes, vocabulary_size)


@pytest.mark.parametrize(
    "client", [np.array([70, 5, 70, 9, 5, 70]), np.array(["d", "a", "d", "b", "a", "d"])]
)
def test_clients_are_numbered_in_the_order_of_their_names(tmp_path, client):
    owner = load(changed(tmp_path, client=client)).owner

    assert owner is not None
    assert owner.dtype == np.int64
    assert owner.tolist() == [2, 0, 2, 1, 0, 2]


@pytest.mark.parametrize("are_both_bytes", [True, False])
def test_images_of_bytes_are_standardised_by_the_training_part(tmp_path, are_both_bytes):
    # Two thirds of the pixels are 0, one is 1: mean 1/3, deviation sqrt(2) / 3.
    pixels = np.zeros((6, 1, 2, 3), np.uint8)
    pixels[..., 2] = 255
    tests = pixels[1:2] if are_both_bytes else (pixels[1:2] / 255).astype(np.float32)
    save(tmp_path / "train.npz", {"images": pixels, "labels": VECTORS["labels"]})
    save(tmp_path / "test.npz", {"images": tests, "labels": np.array([1])})

    data = load(tmp_path, standardise=True)

    expected = [[-(0.5**0.5), -(0.5**0.5), 2**0.5]] * 2
    assert isinstance(data.train_inputs, ByteImages) == are_both_bytes
    assert np.asarray(data.train_inputs)[3, 0] == pytest.approx(np.array(expected), rel=1e-6)
    assert data.test_inputs[0, 0] == pytest.approx(np.array(expected), rel=1e-6)


@pytest.mark.parametrize("test", ["test", "t10k"])
@pytest.mark.parametrize("is_packed", [True, False])
def test_idx_files_do_as_well(tmp_path: Path, test: str, is_packed: bool) -> None:
    pixels = np.arange(24).reshape(4, 2, 3)
    contents = {
        "train-images-idx3-ubyte": idx(pixels),
        "train-labels-idx1-ubyte": idx(np.array([0, 1, 0, 1])),
        "train-client-idx1-int": idx(np.array([300, 2, 2, 300]), 0x0C, ">i4"),
        f"{test}-images-idx3-ubyte": idx(pixels[:1]),
        f"{test}-labels-idx1-ubyte": idx(np.array([1])),
    }
    for name, content in contents.items():
        path = tmp_path / (f"{name}.gz" if is_packed else name)
        path.write_bytes(gzip.compress(content) if is_packed else content)

    data = load(tmp_path)

    assert np.asarray(data.train_inputs)[:, 0] * 255 == pytest.approx(pixels)
    assert data.test_labels.tolist() == [1]
    assert np.asarray(data.owner).tolist() == [1, 0, 0, 1]


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), fraction=st.floats(0.05, 0.95))
def test_every_client_gives_its_share_to_test_and_keeps_the_rest(tmp_path_factory, sizes, fraction):
    folder = tmp_path_factory.mktemp("own")
    total = sum(sizes)
    client = np.repeat(np.arange(len(sizes)), sizes)
    inputs = np.arange(total, dtype=np.float32)[:, None]
    save(folder / "train.npz", {"inputs": inputs, "labels": client, "client": client})
    shares = [int(fraction * size) for size in sizes]

    if sum(shares) == 0:
        with pytest.raises(ScenarioError, match="less than one; raise it"):
            load(folder, test_fraction=fraction)
        return
    data = load(folder, test_fraction=fraction)

    assert np.bincount(data.test_labels, minlength=len(sizes)).tolist() == shares
    together = [*np.asarray(data.train_inputs)[:, 0].tolist(), *data.test_inputs[:, 0].tolist()]
    assert sorted(together) == list(range(total))
    assert np.asarray(data.owner).tolist() == data.train_labels.tolist()


def test_the_drawn_test_part_is_the_same_for_every_seed_and_any_ten_of_forty(tmp_path):
    save(tmp_path / "train.npz", {"inputs": np.zeros((40, 1)), "labels": np.arange(40)})

    one, other = (load(tmp_path, test_fraction=0.25, seed=seed).test_labels for seed in (1, 2))

    assert one.tolist() == other.tolist()
    assert len(one) == 10
    assert np.any(np.diff(one) > 1)


OBJECTS = np.array([None] * 6, dtype=object)
WIDE = np.zeros((6, 2, 5, 3), np.uint8)

ONE_HOT = np.eye(3)[[0, 1, 2, 0, 1, 2]]
TOKENS = np.arange(24, dtype=np.int64).reshape(6, 4)

REFUSED: list[Any] = [
    ({"labels": None}, r"train\.npz: needs labels and either .* it has inputs$"),
    ({"inputs": None}, r"train\.npz: needs labels .* it has labels$"),
    ({"images": np.zeros((6, 2, 2))}, "it has images, inputs, labels"),
    ({"labels": OBJECTS}, "labels holds Python objects, which are never unp"),
    ({"inputs": np.array([[0.0]] * 4 + [[np.nan]] * 2)}, r"train\.npz: inputs: sample 4 .* is NaN"),
    ({"inputs": np.full((6, 1), 1e39)}, "sample 0 holds .* not finite as"),
    ({"inputs": np.array([["a"]] * 6)}, "inputs holds <U1; images and vectors are uint8"),
    ({"inputs": np.zeros((0, 2))}, r"inputs has shape \(0, 2\), .* none of them 0"),
    ({"inputs": None, "images": WIDE}, r"save array\.transpose\(0, 3, 1, 2\)"),
    ({"inputs": np.full((6, 2), -1)}, "tokens are numbered from 0; it holds -1"),
    ({"inputs": np.full((6, 2), 2**64 - 1, np.uint64)}, "it holds 18446744073709551615; number"),
    ({"labels": np.zeros(5, int)}, "labels is for 5 samples, .* are 6 inputs"),
    ({"labels": np.zeros(6)}, r"labels holds float64 of shape \(6,\); labels"),
    ({"labels": np.array([0, 1, -1, 0, 0, 0])}, "it holds the label -1;"),
    ({"labels": np.full(6, 2**64 - 1, np.uint64)}, "label 18446744073709"),
    ({"client": np.zeros(7, int)}, "client is for 7 samples, but there are 6"),
    ({"client": np.zeros(6)}, "client holds float64 in 1 dimensions"),
    ({"inputs": np.zeros((6, 3))}, r"test\.npz: inputs: samples of shape \(2,\).*\(3,\)"),
    ({"labels": np.array(list("abcabc"))}, "number them, and save np.unique.labels, return_inv"),
    ({"labels": ONE_HOT.astype(int)}, "one-hot, save labels.argmax.axis=1."),
    ({"labels": VECTORS["labels"][:, None]}, r"shape \(6, 1\); .*save labels\[:, 0\]"),
    ({"labels": np.zeros((6, 2), int)}, "labels are whole numbers .n.; save"),
    ({"inputs": TOKENS, "labels": TOKENS[:, :3]}, r"\(6, 3\); .* one per token \[6, 4\]; save"),
    ({"inputs": np.zeros((6, 2), np.int16)}, "float32, those of .*train.npz: inputs .* int64"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_an_array_that_cannot_be_learned_from_is_told(tmp_path, changes, message):
    with pytest.raises(DataError, match=message) as caught:
        load(changed(tmp_path, **changes))

    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


WHOLE = {"inputs": np.zeros((6, 2), np.int64)}
REFUSED_WHOLE: list[Any] = [
    (TEST | {"inputs": TOKENS[:2], "labels": np.array([0, 1])},
     {"inputs": TOKENS, "labels": TOKENS}, {},
     r"test\.npz: labels: labels of shape \(2,\), .*\(6, 4\)"),
    (TEST, {}, {"num_classes": 2},
     r"train\.npz: labels: label 2 of sample 2 is outside 0\.\.1; raise task\.dataset\.num_c"),
    (TEST | {"inputs": np.zeros((1, 2), int)}, WHOLE, {"standardise": True},
     r"^task\.dataset\.standardise: .* holds tokens"),
    (TEST, {}, {"test_fraction": 0.2}, r"^task\.dataset\.test_fraction: .* leave the key out"),
    (None, {}, {}, r"no test part; add test\.npz .* task\.dataset\.test_fraction"),
]  # fmt: skip


@pytest.mark.parametrize(("test", "changes", "keys", "message"), REFUSED_WHOLE)
def test_parts_and_keys_that_do_not_belong_together_are_told(
    tmp_path, test, changes, keys, message
):
    save(tmp_path / "train.npz", VECTORS | changes)
    if test is not None:
        save(tmp_path / "test.npz", test)

    with pytest.raises((DataError, ScenarioError), match=message):
        load(tmp_path, **keys)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no train.npz, and no IDX files"),
        (["test.npz"], "has no train.npz, and no IDX files"),
        (["train.npz", "train-labels-idx1-ubyte"], "both train.npz and train-labels-idx1-ubyte"),
        (["train-labels-idx1", "train-labels-idx1.gz"], "both train-labels-idx1 and train-labels"),
        (["train.npz", "test.npz", "t10k-images-idx3"], "two test parts, test and t10k"),
    ],
)
def test_files_that_leave_it_open_what_is_meant_are_told(tmp_path, names, message):
    for name in names:
        save(tmp_path / name, VECTORS)

    with pytest.raises(DataError, match=message):
        load(tmp_path)
    with pytest.raises(DataError, match=r"nowhere is no folder with train\.npz"):
        load(tmp_path / "nowhere")
    (tmp_path / "idx").mkdir()
    (tmp_path / "idx" / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((1, 2, 2))))
    with pytest.raises(DataError, match=r"/train-\*-idx\*: needs labels and .* it has images"):
        load(tmp_path / "idx")


def header(shape: str, descr: str = "'<f8'", version: int = 1) -> bytes:
    """A .npy file that announces a shape and holds sixteen bytes."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text + b"\0" * 16


UNREADABLE = [
    (header("(2, 1000000000000)"), r"announces shape \(2, 1000000000000\) of float64, so 160+"),
    (header("(1,)"), r"announces shape \(1,\) of float64, so \d+ bytes, found \d+; write"),
    (header("(-2,)"), "is no array that numpy can read"),
    (header("(2,)", "'|O'"), "holds Python objects, which are never unpickled"),
    (header("(2,)", version=3), r"\.npy version \(3, 0\) is not read"),
    (header("(2,").replace(b"}", b" "), "its header is not of the form that numpy"),
    (header("(2,)" + " " * 20000), r"\(a header of 20058 bytes"),
    (b"", "is no array that numpy can read"),
    (header("(2,)", "()"), "its header is not of the form"),
    (header("(2,)", "[('a', '<f8')]"), "its header is not of the form"),
    (header("(" + "1, " * 70 + ")"), "float64 in 70 dimensions"),
    (header("(2,)", "'<U0'"), "<U0 in 1 dimensions, which is empty"),
    (header("(2,)", "'<f3'"), "its header: "),
    (header("(2,)", "'V8'"), "elements of type 'V8'"),
]


@pytest.mark.parametrize(("content", "message"), UNREADABLE)
def test_a_header_is_matched_and_never_evaluated_before_memory_is_taken(tmp_path, content, message):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as packed:
        packed.writestr("x.npy", content)

    with pytest.raises(DataError, match=rf"a\.npz: x:? ?.*({message})"):
        read_npz(tmp_path / "a.npz", ["x"])


@pytest.mark.parametrize("keep", [0, 40, 2000])
def test_a_damaged_npz_file_or_an_unusual_packing_is_told(tmp_path: Path, keep: int) -> None:
    path = save(tmp_path / "a.npz", {"x": np.arange(1000)})
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(DataError, match=r"a\.npz: damaged \.npz file \(.+\); write it anew"):
        read_npz(path, ["x"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("x.npy", b"")
    with pytest.raises(DataError, match=r"x is packed .*; save it with np\.savez_compressed"):
        read_npz(path, ["x"])
    # A member shorter than the archive says.
    whole = header("(2,)")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("x.npy", whole[:-8])
        member = packed.getinfo("x.npy")
    true, false = (struct.pack("<LL", member.compress_size, len(whole) - cut) for cut in (8, 0))
    assert path.read_bytes().count(true) == 2
    path.write_bytes(path.read_bytes().replace(true, false))
    with pytest.raises(DataError, match=r"a\.npz: x: 16 bytes of elements announced, found 8; w"):
        read_npz(path, ["x"])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "u1", "<i8", "<U3"])
def test_arrays_are_read_as_numpy_reads_them_and_others_not_at_all(tmp_path, dtype, order):
    array = np.asarray(np.arange(24).reshape(2, 3, 4).astype(dtype), order=order)
    path = save(tmp_path / "a.npz", {"x": array, "evil": OBJECTS})
    np.savez_compressed(tmp_path / "b.npz", x=array, allow_pickle=False)
    result, packed = (read_npz(one, ["x", "y"]) for one in (path, tmp_path / "b.npz"))

    assert result.keys() == {"x"}
    assert result["x"].dtype == packed["x"].dtype == array.dtype
    assert result["x"].tolist() == packed["x"].tolist() == array.tolist()


@settings(max_examples=60)
@given(position=st.integers(0, 5000), byte=st.integers(0, 255))
def test_no_single_byte_of_a_file_can_do_more_than_be_refused(tmp_path_factory, position, byte):
    path = save(tmp_path_factory.mktemp("own") / "train.npz", VECTORS)
    content = bytearray(path.read_bytes())
    content[position % len(content)] = byte
    path.write_bytes(bytes(content))

    # numpy warns of headers that look as old Python wrote them.
    with warnings.catch_warnings(), contextlib.suppress(DataError, ScenarioError):
        warnings.simplefilter("ignore")
        load(path.parent, test_fraction=0.5)
