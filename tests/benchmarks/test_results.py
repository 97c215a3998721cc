"""Results on disk, which an interrupted session finds again."""

import dataclasses

from benchmarks.results import Result, Store
from tests.benchmarks.test_figures import OURS, PEER


def test_a_result_is_read_back_as_it_was_written(tmp_path):
    store = Store(tmp_path)
    store.keep(OURS)
    store.keep(PEER)

    assert store.all() == [OURS, PEER]


def test_a_run_that_was_made_is_found_by_work_contestant_repeat_and_rounds(tmp_path):
    store = Store(tmp_path)
    store.keep(PEER)

    assert store.find("w1", "flower", 1, 4) == PEER
    assert store.find("w1", "flower", 2, 4) is None
    assert store.find("w1", "flower", 1, 20) is None


def test_a_run_that_failed_is_to_be_made_again(tmp_path):
    store = Store(tmp_path)
    store.keep(Result("w1", "flower", 1, 4, error="no"))

    assert store.find("w1", "flower", 1, 4) is None
    assert [result.error for result in store.all()] == ["no"]


def test_a_later_run_replaces_the_one_that_failed(tmp_path):
    store = Store(tmp_path)
    store.keep(dataclasses.replace(PEER, error="no"))
    store.keep(PEER)

    assert store.all() == [PEER]


def test_the_session_is_empty_until_something_is_known(tmp_path):
    store = Store(tmp_path / "new")

    assert store.session() == {}
    store.keep_session({"machine": {"cores": "2"}})
    assert store.session() == {"machine": {"cores": "2"}}
    assert store.all() == []
