"""Backends: progress of runs, and processes that are killed."""

from types import SimpleNamespace

from fleetsim.contracts import Progress
from fleetsim.scenario import load
from fleetsim.studies.run_process import ProgressSender, RunProgress


def test_progress_is_told_twice_a_second_at_most():
    scenario = load("quickstart", ["stop.rounds=4"])
    sent: list[RunProgress] = []
    clock = SimpleNamespace(now_s=0.0)
    tell = ProgressSender("key", sent.append, lambda: clock.now_s)
    for number, now_s in enumerate((0.0, 0.4, 0.5, 0.9, 1.0), start=1):
        clock.now_s = now_s
        tell(scenario, progress_of(number))

    assert [each.round for each in sent] == [1, 3, 5]
    assert sent[0] == RunProgress("key", 0.25, 1, 1.0, None)


def progress_of(number: int) -> Progress:
    return Progress(
        round=number,
        now_s=float(number),
        accuracy=None,
        energy_total_j=0.0,
        num_selected=1,
        num_delivered=1,
    )
