"""Small studies without training, and executors for them."""

from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from fleetsim.schema import strict_yaml
from fleetsim.studies.backends import RemoteTasks
from fleetsim.studies.execution import Execution, execute
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import Study, load_study

STUDY: dict[str, Any] = {
    "name": "small",
    "question": "Does a larger cohort take longer?",
    "scenario": "quickstart",
    "train": False,
    "overrides": {"fleet.size": 12, "server.cohort": 3, "stop.rounds": 2},
    "arms": {"random": {}, "cohort of 5": {"server.cohort": 5}},
    "seeds": [1, 2],
}


def written(folder: Path, **changes: Any) -> Path:
    """Write a study file, with other values of some keys; keys of None are left out."""
    data = {key: value for key, value in (STUDY | changes).items() if value is not None}
    path = folder / "small.yaml"
    path.write_text(strict_yaml.dump(data), encoding="utf-8")
    return path


def loaded(folder: Path, **changes: Any) -> Study:
    """Return a study, with other values of some keys."""
    return load_study(written(folder, **changes))


class AtOnce(Executor):
    """Executor that carries out a task when it is given; it counts them, and can refuse some."""

    def __init__(self, *faults: BaseException | None) -> None:
        self.num_tasks = 0
        self._faults = list(faults)
        """Faults of the first tasks; None: the task is carried out."""

    def submit(self, task: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.num_tasks += 1
        fault = self._faults.pop(0) if self._faults else None
        future: Future[Any] = Future()
        if fault is not None:
            future.set_exception(fault)
            return future
        try:
            future.set_result(task(*arguments, **named))
        except Exception as raised:  # as executors do
            future.set_exception(raised)
        return future


def executed(
    study: Study, home: Path, executor: Executor | None = None, watcher: Any = None
) -> Execution:
    """Carry out a study with an executor, at once unless given."""
    backend = RemoteTasks(executor or AtOnce())
    return execute(study, RunStore(home), backend, watcher or Silent())


class Silent:
    """Watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def checking(self, num_checked: int, num_complete: int) -> None:
        pass

    def begin(self, *, num_done: int, missing: Any) -> None:
        self.events.append(("begin", f"{num_done} done, {len(missing)} missing"))

    def set_aside(self, planned: Any, aside: Any) -> None:
        self.events.append(("set aside", f"{planned.name}: {aside.folder}: {aside.reason}"))

    def started(self, planned: Any) -> None:
        self.events.append(("started", planned.name))

    def waiting(self, planned: Any) -> None:
        self.events.append(("waiting", planned.name))

    def progress(self, updates: Any) -> None:
        pass

    def finished(self, planned: Any) -> None:
        self.events.append(("finished", planned.name))

    def failed(self, planned: Any, reason: str, *, is_final: bool) -> None:
        self.events.append(("failed" if is_final else "repeated", f"{planned.name}: {reason}"))

    def ending(self) -> None:
        self.events.append(("ending", ""))
