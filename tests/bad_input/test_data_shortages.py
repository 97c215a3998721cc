"""Data of one's own that are too few for the scenario: `validate` says what `run` says."""

import os
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.errors import ScenarioError
from fleetsim.learning.data.folder import FolderSettings
from fleetsim.learning.data.formats.idx import idx_shape
from fleetsim.learning.data.loading import load_dataset
from tests.bad_input.good import GOOD, write

OWNERS = np.repeat(np.arange(6), [1, 2, 3, 4, 10, 20])
"""Owners of 40 samples."""
LABELS = np.arange(40) % 4


def npz(folder, *, test=True, client=None):
    """40 vectors of 2 features with 10 samples of each of 4 labels."""
    folder.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {"inputs": np.ones((40, 2), np.float32), "labels": LABELS}
    if client is not None:
        arrays["client"] = client
    np.savez(folder / "train.npz", **arrays)
    if test:
        np.savez(folder / "test.npz", inputs=np.ones((4, 2), np.float32), labels=np.arange(4))


def scenario(partition="{kind: iid}", *, size=4, dataset="", more=""):
    """Text of a scenario on the folder `own`."""
    text = GOOD.replace("{kind: digits}", f"{{kind: folder, folder: own{dataset}}}")
    text = text.replace("{kind: iid}", partition).replace("size: 8", f"size: {size}")
    return text + more


Case = tuple[dict[str, Any], str, str]
"""Changes of the folder, the scenario, and the expected message."""

FROM_HEADERS: dict[str, Case] = {
    "more clients than samples": ({}, scenario(size=100_000),
        "s.yaml:12: fleet.size = 100000: 100000 clients are more than the 40 training samples"),
    # A quarter of all 40 become the test part.
    "test part drawn from all": ({"test": False},
        scenario(size=31, dataset=", test_fraction: 0.25"),
        "s.yaml:12: fleet.size = 31: 31 clients are more than the 30 training samples"),
    # Half of 1, 2, 3, 4, 10 and 20, rounded down, are 0, 1, 1, 2, 5 and 10: 19 of 40.
    "test part drawn from each client": ({"test": False, "client": OWNERS},
        scenario(size=22, dataset=", test_fraction: 0.5"),
        "s.yaml:12: fleet.size = 22: 22 clients are more than the 21 training samples"),
    "samples for validation": ({}, scenario(size=21, more="evaluate: {validation_fraction: 0.5}\n"),
        "s.yaml:12: fleet.size = 21: 21 clients are more than the 20 training samples"),
    "samples held out": ({}, scenario("{kind: iid}\n  holdout_fraction: 0.1", size=21),
        "s.yaml:6: task.holdout_fraction = 0.1: 21 clients need 2 samples each"),
    "samples per client": ({}, scenario("{kind: dirichlet, alpha: 1, min_samples: 11}"),
        "s.yaml:5: task.partition.min_samples = 11: 4 clients with 11 samples each need 44"),
    "shards": ({}, scenario("{kind: shards, shards_per_client: 11}"),
        "s.yaml:5: task.partition.shards_per_client = 11: 4 clients with 11 shards"),
    "natural clients": ({"client": OWNERS}, scenario("{kind: natural}", size=7),
        "s.yaml:12: fleet.size = 7: the data set has 6 clients of its own"),
    "no natural clients": ({}, scenario("{kind: natural}"),
        "own names no clients of its own; add an array 'client' to its training part"),
}  # fmt: skip

FROM_SAMPLES: dict[str, Case] = {
    "a label without a client": ({}, scenario("{kind: one-class}", size=3),
        "fleet.size: one-class assigns one label to a client, and 3 clients cannot hold 4 labels"),
    # Of 39 clients the last of 4 labels has 9, and 5 slices of 2 samples take all 10 of it.
    "a client without a slice": ({}, scenario("{kind: one-class}", size=39),
        "fleet.size: the 10 samples of label 3 make no 9 slices of 2"),
    # Each label goes to one client as good as whole, so that two of three clients have 10 samples.
    "a draw that never succeeds": ({},
        scenario("{kind: dirichlet, alpha: 0.001, min_samples: 13}", size=3),
        "task.partition.min_samples: in none of 1000 draws had each of the 3 clients 13 samples"),
    "clients that are not one for each sample": ({"test": False, "client": OWNERS[:30]},
        scenario(size=35, dataset=", test_fraction: 0.5"),
        "client is for 30 samples, but there are 40 inputs"),
    "more clients alike than clients": ({}, scenario("{kind: partly-iid, num_iid: 5}"),
        "s.yaml:5: task.partition.num_iid = 5: 5 clients are to have i.i.d. samples"),
    "a natural client's only sample held out": ({"client": OWNERS},
        scenario("{kind: natural}\n  holdout_fraction: 0.5", size=6),
        "task.holdout_fraction = 0.5: client 0 has 1 sample(s), too few to train with some"),
    "natural clients' only samples for validation": ({"client": OWNERS},
        scenario("{kind: natural}", more="evaluate: {validation_fraction: 0.9}\n"),
        "evaluate.validation_fraction = 0.9: 36 of 40 training samples would leave none"),
}  # fmt: skip


@pytest.fixture
def both(refused_twice):
    """Write a scenario, and return what `validate` and `run` say of it."""

    def call(text):
        write({"s.yaml": text.replace("cohort: 3", "cohort: 1")})
        return refused_twice("s.yaml")

    return call


@pytest.mark.parametrize("case", [*FROM_HEADERS, *FROM_SAMPLES])
def test_validate_says_of_a_shortage_what_run_says(case, here, both):
    files, text, message = (FROM_HEADERS | FROM_SAMPLES)[case]
    npz(here / "own", **files)

    assert message in both(text)


def test_elements_are_not_read_for_a_size(here):
    # 64 MiB of labels, a hole in the file.
    path = here / "train-labels-idx1-ubyte"
    path.write_bytes(bytes([0, 0, 8, 1]) + (1 << 26).to_bytes(4, "big"))
    os.truncate(path, 8 + (1 << 26))

    tracemalloc.start()
    shape = idx_shape(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert shape == (1 << 26,)
    assert peak < 1 << 20


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    fraction=st.sampled_from([0.1, 0.2, 0.34, 0.5, 0.9]),
    is_owned=st.booleans(),
)
def test_sizes_without_samples_are_those_of_the_data_set(
    sizes, fraction, is_owned, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("own")
    client = np.repeat(np.arange(len(sizes)), sizes)
    arrays: dict[str, Any] = {"inputs": np.ones((client.size, 2), np.float32), "labels": client % 2}
    if is_owned:
        arrays["client"] = client
    np.savez(folder / "train.npz", **arrays)
    settings = FolderSettings(folder=str(folder), test_fraction=fraction)
    try:
        read = load_dataset(settings, seed=1, num_clients=1)
    except ScenarioError:  # too few for a test part
        return

    assert settings.num_training(folder) == len(read.train_labels)
    owners = 0 if read.owner is None else np.unique(read.owner).size
    assert settings.num_natural(folder) == owners
