"""Progress of a study in lines."""

from fleetsim.studies.display import Lines
from fleetsim.studies.run_process import RunProgress
from tests.studies.small_studies import loaded


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
