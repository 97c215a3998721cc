"""Frozen weights travel once: on a board with 1 MB/s each way, 2 W on Wi-Fi, a model of 1 MB."""

import dataclasses
from typing import Any

import pytest

from fleetsim.contracts import Outcome, TaskRow
from fleetsim.engine.servers.buffered import BufferedSettings
from tests.engine.memory_recorder import MemoryRecorder
from tests.engine.tiny import COST, Tiny, goes_on

THREE_SECONDS = dataclasses.replace(COST, frozen_byte=3_000_000)


def rows_of(tiny: Tiny, *, rounds: int = 2, **interruption: Any) -> list[TaskRow]:
    """Rows of a run with one client."""
    server = {"cohort": 1, "interruption": {"kind": "lose", **interruption}}
    tiny.size, tiny.cost, tiny.recorder = 1, THREE_SECONDS, MemoryRecorder()
    return tiny.rows(server=server, stop={"rounds": rounds})


def test_the_first_download_has_the_frozen_weights_and_no_other(tiny):
    first, second = rows_of(tiny)

    assert (first.frozen_download_byte, first.download_byte) == (3_000_000, 1_000_000)
    assert (second.frozen_download_byte, second.download_byte) == (0, 1_000_000)
    assert (first.download_s, second.download_s) == pytest.approx((4.0, 1.0))
    # The second begins in the tail of the upload before it, which has paid 0.04 J.
    assert (first.energy_receive_j, second.energy_receive_j) == pytest.approx((8.0, 1.96))
    assert first.upload_byte == second.upload_byte == 1_000_000


def test_a_client_that_is_cut_off_pays_again_for_what_did_not_arrive(tiny):
    tiny.trace("0,1,0,1,0 2,0,0,1,0 10,1,0,1,0", span_s=100_000)
    cut, again = rows_of(tiny)

    assert cut.outcome is Outcome.OFFLINE
    assert (cut.frozen_download_byte, cut.download_byte) == (2_000_000, 0)
    assert (again.frozen_download_byte, again.download_byte) == (1_000_000, 1_000_000)
    assert again.download_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("transfers", "frozen_byte", "download_s"),
    [("resume", 3_000_000, 4.0), ("restart", 5_000_000, 6.0)],
)
def test_frozen_weights_that_are_moved_again_are_counted_again(
    tiny, transfers, frozen_byte, download_s
):
    tiny.trace("0,1,0,1,0 2,0,0,1,0 10,1,0,1,0", span_s=100_000)
    first, second = rows_of(tiny, kind="pause", transfers=transfers)

    assert first.outcome is Outcome.DELIVERED
    assert (first.frozen_download_byte, first.download_byte) == (frozen_byte, 1_000_000)
    assert first.download_s == pytest.approx(download_s)
    assert second.frozen_download_byte == 0


def test_no_column_without_frozen_weights(tiny):
    tiny.run(size=1, recorder=MemoryRecorder(), server={"cohort": 1})

    assert tiny.recorder.tasks[0].frozen_download_byte is None
    assert "clients/frozen_left_byte" not in tiny.recorder.states[-1]


@pytest.mark.parametrize("kind", ["synchronous", "buffered"])
def test_a_resumed_run_knows_who_has_the_frozen_weights(tiny, kind):
    tiny.varied()
    tiny.cost, tiny.stop = THREE_SECONDS, {"rounds": 6}
    tiny.server = {"cohort": 3}
    if kind == "buffered":
        tiny.server = BufferedSettings.model_validate({"concurrency": 4, "buffer_size": 2})

    whole = goes_on(tiny, tiny.build_buffered if kind == "buffered" else tiny.build, after=(2, 4))

    assert {row.frozen_download_byte for row in whole.tasks} >= {0, 3_000_000}
