"""Results on disk, which an interrupted session finds again."""

from benchmarks.results import Result, Store
from tests.benchmarks.test_figures import OURS, PEER


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
