"""Progress of a study: how often runs send it, and its lines."""

from types import SimpleNamespace

from fleetsim.contracts import Progress
from fleetsim.scenario import load
from fleetsim.studies.display import Lines
from fleetsim.studies.run_process import ProgressSender, RunProgress
from tests.studies.small_studies import loaded


def test_progress_is_told_twice_a_second_at_most():
    scenario = load("quickstart", ["stop.rounds=4"])
    sent: list[RunProgress] = []
    clock = SimpleNamespace(now_s=0.0)
    tell = ProgressSender("key", sent.append, lambda: clock.now_s)
    for number, now_s in enumerate((0.0, 0.4, 0.5, 0.9, 1.0), start=1):
        clock.now_s = now_s
        progress = Progress(number, float(number), None, 0.0, num_selected=1, num_delivered=1)
        tell(scenario, progress)

    assert [each.round for each in sent] == [1, 3, 5]
    assert sent[0] == RunProgress("key", 0.25, 1, 1.0, None)


def test_a_failed_run_that_is_repeated_is_not_shown_as_under_way_until_it_begins_again(tmp_path):
    printed: list[str] = []
    times_s = iter(range(0, 1000, 40))
    lines = Lines(printed.append, lambda: float(next(times_s)))
    first, second, *_ = loaded(tmp_path).runs
    updates = [RunProgress(one.key, 0.5, 3, 60.0, 0.25) for one in (first, second)]
    lines.begin(num_done=0, missing=[first, second])
    lines.started(first)
    lines.started(second)
    lines.progress(updates)
    lines.failed(first, "its process was ended", is_final=False)
    lines.progress(updates[1:])
    lines.progress(updates)

    shows = [f"{first.name}: round 3" in line for line in printed if "runs done" in line]
    assert shows == [True, False, True]
    assert all(f"{second.name}: round 3" in line for line in printed if "runs done" in line)


def test_lines_say_that_another_process_makes_a_run(tmp_path):
    shown: list[str] = []
    now_s = 0.0
    lines = Lines(shown.append, lambda: now_s)
    first = loaded(tmp_path).runs[0]

    lines.begin(num_done=0, missing=[first])
    lines.waiting(first)
    now_s = 40.0
    lines.progress([])

    assert "random, seed 1 is being made by another process" in shown[1]
    assert shown[2].startswith("0 of 1 runs done, 1 made by another process")
