"""Calls in two processes: results in order, and faults as if there were one."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetsim.report import two_processes
from fleetsim.report.two_processes import in_two_processes

has_two = pytest.mark.skipif(
    not hasattr(os, "fork") or os.cpu_count() == 1 or len(os.sched_getaffinity(0)) == 1,
    reason="needs two cores and a system that forks",
)


@pytest.mark.parametrize("number", range(4))
def test_results_are_in_the_order_of_the_items(number: int) -> None:
    assert in_two_processes(lambda item: 10 * item, range(number)) == [0, 10, 20][:number]


@has_two
def test_every_second_item_is_computed_by_another_process() -> None:
    first, second, third = in_two_processes(lambda _: os.getpid(), range(3))

    assert first == third == os.getpid() != second


@pytest.mark.parametrize("wrong", [2, 3])
def test_a_fault_of_either_process_is_raised(wrong: int) -> None:
    with pytest.raises(ZeroDivisionError):
        in_two_processes(lambda item: 1 / (item - wrong), range(4))


@has_two
@pytest.mark.parametrize(
    "end", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: time.sleep(60)]
)
def test_items_of_a_process_that_was_killed_or_hangs_are_computed_here(
    end: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_processes, "_PATIENCE_S", 0.5)
    here, number = os.getpid(), tmp_path / "number"

    def ends_elsewhere(item: int) -> int:
        if os.getpid() != here:
            number.write_text(str(os.getpid()))
            end()
        return -item

    assert in_two_processes(ends_elsewhere, range(4)) == [0, -1, -2, -3]
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text()), 0)
