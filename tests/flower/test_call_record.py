import pytest

from fleetsim.errors import DataError
from fleetsim.flower.call_record import CallRecord
from fleetsim.host import new_files


def _no_call():
    raise AssertionError("answered from the record")


def _recorded(folder):
    record = CallRecord(folder, is_kept=True)
    record.answer("get_node_ids", "", lambda: record.put(b"[2, 3]"))
    record.answer("sleep", "1.0", lambda: None)
    return record


def test_a_resumed_run_gets_the_same_answers_and_then_live_ones(tmp_path):
    state = _recorded(tmp_path).state()
    record = CallRecord(tmp_path, is_kept=True)
    record.restore(state)

    nodes = record.answer("get_node_ids", "", _no_call)
    slept = record.answer("sleep", "1.0", _no_call)

    assert isinstance(nodes, str)
    assert record.get(nodes) == b"[2, 3]"
    assert slept is None
    assert not record.is_replaying
    assert record.answer("sleep", "2.0", lambda: "live") == "live"


@pytest.mark.parametrize(
    ("call", "asked", "says"),
    [
        ("sleep", "", "call 1 of the server app was get_node_ids and is now sleep"),
        ("get_node_ids", "x", "call 1 of the server app get_node_ids differs"),
    ],
)
def test_a_call_that_differs_from_the_record_ends_the_run(tmp_path, call, asked, says):
    state = _recorded(tmp_path).state()
    record = CallRecord(tmp_path, is_kept=True)
    record.restore(state)

    with pytest.raises(DataError, match=says):
        record.answer(call, asked, _no_call)


def test_a_damaged_or_foreign_answer_is_refused(tmp_path):
    record = _recorded(tmp_path)
    [file] = (tmp_path / "replies").iterdir()
    file.write_bytes(b"[2, 4]")

    with pytest.raises(DataError, match="is damaged"):
        record.get(file.name)
    with pytest.raises(DataError, match="no digest"):
        record.get("../../manifest.json")


def test_the_store_of_a_run_that_is_done_is_removed_and_nothing_else(tmp_path):
    record = _recorded(tmp_path)
    mine = tmp_path / "replies" / "mine.txt"
    mine.write_text("not a reply")
    left_by_a_kill, file = new_files.created_beside(tmp_path / "replies" / ("0" * 64))
    file.close()
    assert left_by_a_kill.exists()

    record.clear()

    assert list((tmp_path / "replies").iterdir()) == [mine]
