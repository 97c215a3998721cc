"""Guards of aggregators and partitions in a run: arguments stay, answers are checked."""

from typing import Any

import numpy as np
import pytest

from fleetsim.errors import PluginError, ScenarioError
from fleetsim.user import given_plugin


def settings_of(given, kind="partition") -> Any:
    """Return the settings at the place of a part given from Python."""
    return given_plugin(kind, given).settings()


SPLITS = {
    "None": (None, "split returned None, not a list of arrays, one for each client"),
    "too few": ([[0], [1]], "split returned 2 arrays, not an array for each of 3 clients"),
    "masks": ([np.ones(9, bool)] * 3, "bool of shape (9,) for client 0, not indices [n]"),
    "two dimensions": ([[[0]], [1], [2]], "int64 of shape (1, 1) for client 0, not indices"),
    "past the end": ([[0], [9], [1]], "sample 9 for client 1; there are 0 to 8"),
    "before the start": ([[0], [1], [-1]], "sample -1 for client 2; there are 0 to 8"),
    "twice": ([[0], [1, 1], [2]], "a sample twice for client 1"),
    "shared": ([[0], [1, 5], [5, 2]], "sample 5 for clients 1 and 2"),
    "ragged": ([[[0], [1, 2]], [1], [2]], "no array of indices for client 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPLITS)
def test_an_answer_that_is_no_partition_is_refused(case):
    answer, message = SPLITS[case]
    settings = settings_of(lambda labels, num_clients, generator: answer)
    labels = np.zeros(9, dtype=np.int64)

    with pytest.raises(ScenarioError) as fault:
        settings.split(labels=labels, owner=None, num_clients=3, seed=1)

    (line,) = fault.value.faults
    assert line.startswith("partition ")
    assert message in line


def test_labels_cannot_be_changed_by_a_partition():
    def greedy(labels, num_clients, generator):
        labels[0] = 1

    labels = np.zeros(9, dtype=np.int64)

    with pytest.raises(ScenarioError, match="split fails: ValueError: assignment destination is"):
        settings_of(greedy).split(labels=labels, owner=None, num_clients=3, seed=1)
    assert labels.flags.writeable


def test_sequences_are_split_by_those_that_say_so():
    def ends(labels, num_clients, generator):
        return np.array_split(np.arange(len(labels)), num_clients)

    class Ends:
        splits_sequences = True

        def split(self, labels, num_clients, generator):
            return ends(labels, num_clients, generator)

    labels = np.zeros((6, 4), dtype=np.int64)
    split = {"owner": None, "num_clients": 2, "seed": 1, "labels": labels}

    with pytest.raises(ScenarioError, match="is a sequence with 4; choose iid or natural, or set"):
        settings_of(ends).split(**split)
    shares = settings_of(Ends).split(**split)
    assert [own.tolist() for own in shares] == [[0, 1, 2], [3, 4, 5]]


def aggregator_of(answer):
    class Answering:
        def aggregate(self, base, reports):
            return answer(base)

    return settings_of(Answering, "aggregator").build()


MODELS = {
    "None": (lambda base: None, "None, not a numpy array"),
    "too short": (lambda base: base[:-1], "an array of shape (3,), not a model of shape (4,)"),
    "whole numbers": (lambda base: base.astype(int), "an array of int64, not of float32 or"),
    "NaN": (lambda base: base + np.nan, "4 of 4 numbers that are not finite as float32"),
    "infinite": (lambda base: base - np.inf, "4 of 4 numbers that are not finite"),
    "beyond float32": (lambda base: np.append(base[1:], 1e308), "1 of 4 numbers that are not fin"),
}


@pytest.mark.parametrize("case", MODELS)
def test_an_answer_that_is_no_model_is_refused(case):
    answer, message = MODELS[case]
    with pytest.raises(PluginError) as fault:
        aggregator_of(answer).aggregate(np.zeros(4, dtype=np.float32), [])

    assert f"aggregate returned {message}" in str(fault.value)


def test_the_model_and_the_reports_cannot_be_changed_by_an_aggregator():
    def greedy(base):
        base += 1
        return base

    with pytest.raises(PluginError, match=r"aggregate fails: ValueError: .*read-only"):
        aggregator_of(greedy).aggregate(np.zeros(4, dtype=np.float32), [])


def test_a_model_that_an_aggregator_keeps_is_no_longer_the_runs():
    kept = np.zeros(4, dtype=np.float32)
    model = aggregator_of(lambda base: kept).aggregate(np.zeros(4, dtype=np.float32), [])

    kept[:] = 5.0
    assert model.tolist() == [0.0] * 4
