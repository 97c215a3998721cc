"""Data, partitions and models that cannot be: exit 2, one line, nothing written."""

from __future__ import annotations

import functools
import gzip
import hashlib

import numpy as np
import pytest

from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.data.published.remote_set import RemoteFile, RemoteSet
from tests.bad_input.good import bad, scenario, write

LEARNING = {
    "more clients than samples": bad(
        "size: 8", "size: 2000", "fleet.size", "2000", "at most 1438 clients"
    ),
    "more samples per client than there are": bad(
        "kind: iid", "kind: dirichlet, alpha: 1, min_samples: 180",
        "task.partition.min_samples", "179 or less",
    ),
    "split that never comes out": bad(
        "kind: iid", "kind: dirichlet, alpha: 0.001, min_samples: 150",
        "task.partition.min_samples", "lower it", "task.partition.alpha above 0.001",
    ),
    "more shards than samples": bad(
        "kind: iid", "kind: shards, shards_per_client: 1000",
        "task.partition.shards_per_client", "179 or less",
    ),
    "clients of its own that the set has not": bad(
        "kind: iid", "kind: natural", "task.partition.kind", "iid, dirichlet or shards"
    ),
    "images too small for the model": bad(
        "kind: logistic", "kind: lenet5", "task.model.kind", "12x12", "(1, 8, 8)", "2nn"
    ),
    "model too large for any memory": bad(
        "kind: logistic", "kind: 2nn, hidden: [1000000, 1000000]", "task.model.kind",
        "at most 1e+09",
    ),
    "fleet too large for any memory": bad(
        "kind: digits", "kind: blank", "fleet.size", "not enough memory", words=("--no-train",)
    ),
    "choice by losses that nobody has": bad(
        "kind: random", "kind: oort", "server.selector.kind", "another selector",
        words=("--no-train",),
    ),
    "training on nothing": bad("kind: digits", "kind: blank", "task.dataset.kind", "--no-train"),
    "graphics card that is not there": bad(
        "seed: 1", "seed: 2", "--torch-device", "cuda", "use --torch-device cpu",
        words=("--torch-device", "cuda"),
    ),
    "data that is not there": bad(
        "kind: digits", "kind: mnist", "mnist", "cache", "fleetsim data fetch mnist",
        "FLEETSIM_DATA",
    ),
    "characters that are not there": bad(
        "kind: digits", "kind: emnist, split: letters", "emnist", "fleetsim data fetch emnist"
    ),
    "minutes that are not there": bad(
        "kind: digits", "kind: extrasensory-har", "not found", "http://extrasensory.ucsd.edu/"
    ),
    "folder of one's own that is not there": bad(
        "kind: digits", "kind: folder, folder: nowhere", "nowhere is no folder", "train.npz"
    ),
    "folder that is not there": bad(
        "kind: digits", "kind: mnist, folder: nowhere", "nowhere", "no folder", "leave `folder` out"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", LEARNING.values(), ids=LEARNING)
def test_a_learning_task_that_cannot_be_is_refused_before_anything_is_written(
    fault, refused, monkeypatch, tmp_path_factory
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    if "not enough memory" in fault.says:
        monkeypatch.setattr("fleetsim.learning.training.preparation.blank_sizes", no_memory)

    line = refused("run", scenario(fault), "--out", "run", *fault.words)

    for part in fault.says:
        assert part in line


def no_memory(*_: object, **__: object) -> None:
    raise MemoryError("Unable to allocate 7.28 TiB for an array")


# --- IDX files ----------------------------------------------------------------------------------

NAMES = [
    f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
]


def idx(array: np.ndarray) -> bytes:
    sides = np.array(array.shape, dtype=">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + sides + array.astype(np.uint8).tobytes()


IMAGES, LABELS = idx(np.zeros((20, 28, 28))), idx(np.arange(20) % 10)
IDX = {
    "truncated": ("train-images-idx3-ubyte", IMAGES[:-1], "truncated", "15696", "15695"),
    "header cut off": ("train-images-idx3-ubyte", IMAGES[:6], "truncated", "header"),
    "wrong magic": (
        "train-labels-idx1-ubyte", b"\1" + LABELS[1:], "not an IDX file", "01 00 08 01"
    ),
    "cut gzip": ("t10k-labels-idx1-ubyte", gzip.compress(LABELS)[:-4], "truncated", "get it anew"),
    "too few labels": ("train-labels-idx1-ubyte", idx(np.zeros(19)), "19 labels", "20 images"),
    "label of no class": ("train-labels-idx1-ubyte", idx(np.full(20, 10)), "label 10", "0..9"),
}  # fmt: skip


def published(name: str, data: bytes) -> RemoteFile:
    """A file that is what its author published, whatever that is."""
    sha256 = hashlib.sha256(data).hexdigest()
    return RemoteFile(f"{name}.gz", len(data), "0" * 64, sha256, ("https://example.invalid/",))


@pytest.mark.parametrize(
    ("name", "data", "says"), [(c[0], c[1], c[2:]) for c in IDX.values()], ids=IDX
)
def test_a_damaged_idx_file_is_refused(name, data, says, refused, monkeypatch):
    contents = dict(zip(NAMES, [IMAGES, LABELS] * 2, strict=True)) | {name: data}
    write({f"own/{file}": content for file, content in contents.items()})
    files = tuple(published(file, content) for file, content in contents.items())
    registry = {"mnist": RemoteSet("mnist", "", files, "", "")}
    known = functools.partial(load_dataset, registry=registry)
    monkeypatch.setattr("fleetsim.learning.data.prefetch.load_dataset", known)

    line = refused("run", scenario(bad("kind: digits", "kind: mnist, folder: own")))

    for part in (f"own/{name}: ", *says):
        assert part in line


def test_a_folder_that_lacks_a_file_is_refused(refused):
    write({f"own/{name}": b"" for name in NAMES[:3]})

    line = refused("run", scenario(bad("kind: digits", "kind: mnist, folder: own")))

    assert "own lacks t10k-labels-idx1-ubyte.gz" in line
    assert "put the published files there" in line


def test_a_file_that_is_not_the_published_one_is_refused(refused):
    write({f"own/{name}": b"something else" for name in NAMES})

    line = refused("run", scenario(bad("kind: digits", "kind: mnist, folder: own")))

    assert "own/train-images-idx3-ubyte: not the published file of mnist" in line
    assert hashlib.sha256(b"something else").hexdigest() in line
    assert "fleetsim data fetch mnist" in line
