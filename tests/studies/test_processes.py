"""Studies in processes of this machine that are killed, interrupted and continued."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleetsim.record.manifest import MANIFEST
from fleetsim.studies.backends import LocalProcesses
from fleetsim.studies.execution import execute
from fleetsim.studies.planned_run import PlannedRun
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from tests.studies.small_studies import Silent, written
from tests.studies.trained_studies import MOST_S, assert_same, wait_for

pytestmark = pytest.mark.slow


class KillsOne(Silent):
    """Kills one of two processes while both are in the middle of a run."""

    def __init__(self, store: RunStore) -> None:
        super().__init__()
        self._store = store
        self._begun: list[PlannedRun] = []
        self._others = multiprocessing.active_children()  # of tests before, which end later
        self.has_killed = False

    def started(self, planned):
        self._begun.append(planned)

    def progress(self, updates):
        children = [c for c in multiprocessing.active_children() if c not in self._others]
        if not updates or self.has_killed or len(children) != 2:
            return
        pids = [child.pid for child in children if child.pid is not None]
        for pid in pids:  # no run ends between the look and the kill
            os.kill(pid, signal.SIGSTOP)
        under_way = [run for run in self._begun if self._store.status(run) != "done"]
        if len(under_way) == 2:
            self.has_killed = True
            os.kill(pids.pop(0), signal.SIGKILL)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_killed_process_costs_its_run_alone(trained_file, alone, tmp_path):
    study, store = load_study(trained_file), RunStore(tmp_path)
    watcher = KillsOne(store)

    done = execute(study, store, LocalProcesses(2), watcher)

    assert (done.num_made, done.failures) == (4, {})
    repeated = [text for kind, text in watcher.events if kind == "repeated"]
    assert len(repeated) == 1
    assert "its process was killed" in repeated[0]
    assert_same(study, store, alone)


def test_a_process_that_is_killed_while_it_is_idle_is_replaced(trained_file, tmp_path):
    study, store = load_study(trained_file), RunStore(tmp_path)
    backend = LocalProcesses(1)

    class KillsBetween(Silent):
        def finished(self, planned):
            super().finished(planned)
            child = multiprocessing.active_children()[0]
            child.kill()
            child.join()

    done = execute(study.with_seeds([1]), store, backend, KillsBetween())

    assert (done.num_made, done.failures) == (2, {})


def command(file: Path, home: Path) -> list[str]:
    verb = [sys.executable, "-m", "fleetsim", "study", "run", str(file)]
    return [*verb, "--home", str(home), "--workers", "2"]


def processes_below(parent: int) -> list[int]:
    """Processes of a parent, and theirs."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if fields[0] != "Z":
            parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    children = parents.get(parent, [])
    return [*children, *(each for child in children for each in processes_below(child))]


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)],
    ids=["SIGKILL", "SIGTERM", "Ctrl-C"],
)
def test_a_study_that_is_ended_continues_with_the_same_bytes(
    trained_file, alone, tmp_path, number, code
):
    study, store = load_study(trained_file), RunStore(tmp_path)

    def complete() -> dict[str, bytes]:
        return {
            planned.key: (store.folder(planned) / MANIFEST).read_bytes()
            for planned in study.runs
            if store.status(planned) == "done"
        }

    words = command(trained_file, tmp_path)
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(complete)
    children = processes_below(first.pid)
    assert children
    first.send_signal(number)
    _, message = first.communicate(timeout=MOST_S)

    assert first.returncode == code
    wait_for(lambda: not any(map(is_alive, children)))
    if number != signal.SIGKILL:
        assert "complete runs are kept; go on with: fleetsim study run" in message
    before = complete()
    assert 1 <= len(before) < 4
    subprocess.run(words, check=True, capture_output=True, timeout=MOST_S)
    after = complete()
    assert {key: after[key] for key in before} == before
    assert_same(study, store, alone)


def test_processes_of_a_script_do_not_carry_the_script_out_again(tmp_path):
    file = written(tmp_path)
    script = tmp_path / "mine.py"
    script.write_text(
        "import fleetsim\n"
        "print('begun')\n"
        f"result = fleetsim.study({str(file)!r}, home={str(tmp_path / 'home')!r}, jobs=2)\n"
        "print(len(result.runs), 'runs')\n",
        encoding="utf-8",
    )

    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=MOST_S
    )

    assert (ended.returncode, ended.stdout) == (0, "begun\n4 runs\n"), ended.stderr
