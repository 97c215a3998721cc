"""Results on disk, which an interrupted session finds again, and the page of a small session."""

import dataclasses

from benchmarks.page import render
from benchmarks.results import Result, Store
from tests.benchmarks.test_figures import OURS, PEER

SESSION = {
    "machine": {"processor": "A CPU", "cores": "2"},
    "versions": {"flower": {"flwr": "1.41.0", "torch": "2.13.0+cpu"}},
    "peaks": [{"mm_1": 100.0, "mm_2": 8.0, "onednn_2": 16.0}, {"mm_1": 90.0}],
}
FAILED = Result("w1", "flgo", 1, 3, error="exit code 1: RuntimeError: no luck")
W1 = [dataclasses.replace(OURS, accuracy=0.81), PEER, FAILED]


def test_equal_work_is_checked_by_the_final_accuracy():
    far = [dataclasses.replace(OURS, accuracy=0.9), PEER]

    assert "within 0.02 of fleetsim's" in render(W1, SESSION)
    assert "differs from fleetsim's by more than 0.02: Flower (-0.100)" in render(far, SESSION)


def test_a_result_is_read_back_as_it_was_written_and_found_by_what_was_run(tmp_path):
    store = Store(tmp_path)
    store.keep(OURS)
    store.keep(PEER)

    assert store.all() == [OURS, PEER]
    assert store.find("w1", "flower", 1, 4) == PEER
    assert store.find("w1", "flower", 2, 4) is None
    assert store.find("w1", "flower", 1, 20) is None


def test_a_run_that_failed_is_kept_until_it_is_made_again(tmp_path):
    store = Store(tmp_path)
    store.keep(Result("w1", "flower", 1, 4, error="no"))

    assert store.find("w1", "flower", 1, 4) is None
    assert [result.error for result in store.all()] == ["no"]
    store.keep(PEER)
    assert store.all() == [PEER]
