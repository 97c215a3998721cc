"""Trackers of fleetsim and their names, such as `tensorboard` or `tensorboard=logs`.

Each constructor imports the library. The step of a metric is the number of the round.

- TensorBoard gets a scalar for each column of the rounds table in event files.
  `tensorboard --logdir DIR` shows every run in DIR as a folder of its own. The time of an event is
  the virtual time at which the round ended, so that the horizontal axis "relative" is virtual time.
  Source: the event format of TensorBoard, tensorboard/compat/proto.
- MLflow gets the keys of the scenario as parameters, columns of the rounds table as metrics.
  `mlflow ui --backend-store-uri sqlite:///mlflow.db` shows them. An experiment has the name of the
  scenario. The time of a metric is the virtual time in milliseconds. A run that continues is found
  by the tag `fleetsim.identity`.
- Weights & Biases gets the scenario as configuration, columns of the rounds table as history. The
  mode (`online`, `offline`, `disabled`) is that of W&B: the environment variable WANDB_MODE, or the
  argument. Offline, files stay in `FOLDER/wandb` until `wandb sync` sends them. A run that
  continues has the same id, so that W&B joins the parts.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from fleetsim.contracts import EndedRun, RoundRow, TrackedRun, Tracker
from fleetsim.errors import ScenarioError
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean
from fleetsim.units import MS_PER_S


def metrics_of(row: RoundRow) -> dict[str, float]:
    """Return the numbers of a round by column, without the round; null and text are left out."""
    numbers = {
        name: float(value)
        for name, value in row._asdict().items()
        if name != "round" and isinstance(value, bool | int | float)
    }
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nested mappings by key path.

    >>> flat({"server": {"cohort": 8, "selector": {"kind": "oort"}}, "seed": 1})
    {'server.cohort': 8, 'server.selector.kind': 'oort', 'seed': 1}
    """
    return dict(_leaves(data, ""))


def _leaves(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class TensorBoard:
    """Tracker that writes event files into `FOLDER/NAME OF THE RUN FOLDER`."""

    def __init__(self, folder: str | Path = "tensorboard") -> None:
        """Make it for a folder."""
        from tensorboard.compat.proto import event_pb2, summary_pb2  # noqa: PLC0415
        from tensorboard.summary.writer import event_file_writer  # noqa: PLC0415

        self._events: Any = event_pb2
        self._summary: Any = summary_pb2.Summary
        self._new_writer: Any = event_file_writer.EventFileWriter
        self._folder = Path(folder)
        self._writer: Any = None

    def begin(self, run: TrackedRun) -> None:
        """Open a file; events of rounds that will be told again are withdrawn."""
        self._writer = self._new_writer(str(self._folder / run.folder.name))
        session = self._events.SessionLog
        started = session(status=session.START)
        self._writer.add_event(self._events.Event(step=run.num_rounds + 1, session_log=started))

    def round(self, row: RoundRow) -> None:
        """Write an event with the numbers of a round."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in metrics_of(row).items()
        ]
        self._writer.add_event(
            self._events.Event(
                wall_time=row.finished_at_s, step=row.round, summary=self._summary(value=values)
            )
        )

    def end(self, run: EndedRun) -> None:
        """Write what is left, and close the file."""
        self._writer.close()


_TAG = "fleetsim.identity"
_ENDS = {"done": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
_PARAMS_AT_ONCE = 100
_LONGEST_VALUE = 6000
"""Limits of MLflow's `log_batch`."""


class MLflow:
    """Tracker that makes a run of MLflow, in a database or on a tracking server."""

    def __init__(self, place: str = ".") -> None:
        """Make it for a folder, whose `mlflow.db` is the database, or a tracking URI."""
        # Before it is imported: MLflow reports its use over the network unless this is set.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import entities, tracking  # noqa: PLC0415

        self._entities: Any = entities
        self._new_client: Any = tracking.MlflowClient
        self._place = place
        self._client: Any = None
        self._run_id = ""

    def begin(self, run: TrackedRun) -> None:
        """Make the run, or find it again, with the scenario and the versions."""
        self._client = client = self._new_client(uri := self._uri(), uri)
        known = client.get_experiment_by_name(run.name)
        experiment = client.create_experiment(run.name) if known is None else known.experiment_id
        runs = client.search_runs([experiment], f"tags.`{_TAG}` = '{run.identity}'")
        if runs:
            self._run_id = runs[0].info.run_id
            client.update_run(self._run_id, "RUNNING")
            return
        tags = {
            _TAG: run.identity,
            "fleetsim.folder": str(run.folder),
            "fleetsim.scenario_hash": run.scenario_hash,
            **{f"version.{name}": version for name, version in run.versions.items()},
        }
        made = client.create_run(experiment, run_name=run.folder.name, tags=tags)
        self._run_id = made.info.run_id
        params = [
            self._entities.Param(key, str(value)[:_LONGEST_VALUE])
            for key, value in flat(run.scenario).items()
        ]
        for first in range(0, len(params), _PARAMS_AT_ONCE):
            client.log_batch(self._run_id, params=params[first : first + _PARAMS_AT_ONCE])

    def round(self, row: RoundRow) -> None:
        """Log the numbers of a round."""
        at_ms = int(row.finished_at_s * MS_PER_S)
        metrics = [
            self._entities.Metric(name, value, at_ms, row.round)
            for name, value in metrics_of(row).items()
        ]
        self._client.log_batch(self._run_id, metrics=metrics)

    def end(self, run: EndedRun) -> None:
        """Set the status, and the digest of a run that is done."""
        if run.digest is not None:
            self._client.set_tag(self._run_id, "fleetsim.digest", run.digest)
        self._client.set_terminated(self._run_id, _ENDS[run.status])

    def _uri(self) -> str:
        if ":" in self._place:
            return self._place
        folder = Path(self._place).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{folder / 'mlflow.db'}"


class WeightsAndBiases:
    """Tracker that makes a run of W&B."""

    def __init__(
        self,
        folder: str | Path = ".",
        *,
        project: str = "fleetsim",
        mode: Literal["online", "offline", "disabled"] | None = None,
    ) -> None:
        """Make it; files are written below `folder`."""
        import wandb  # noqa: PLC0415

        self._wandb: Any = wandb
        self._folder = Path(folder)
        self._project = project
        self._mode = mode
        self._run: Any = None

    def begin(self, run: TrackedRun) -> None:
        """Make the run, or continue it, with the scenario and the versions."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._run = self._wandb.init(
            project=self._project,
            mode=self._mode,
            dir=str(self._folder),
            id=run.identity,
            name=run.folder.name,
            group=run.name,
            resume="allow",
            config={
                **flat(run.scenario),
                "fleetsim.scenario_hash": run.scenario_hash,
                **{f"version.{name}": version for name, version in run.versions.items()},
            },
            # Neither the host's load nor the user's repository is part of the run.
            settings=self._wandb.Settings(
                silent=True, console="off", x_disable_stats=True, x_disable_meta=True
            ),
        )
        # Rounds that are told again are behind W&B's own step, which may only grow.
        self._run.define_metric("*", step_metric="round")

    def round(self, row: RoundRow) -> None:
        """Log the numbers of a round."""
        self._run.log({"round": row.round, **metrics_of(row)})

    def end(self, run: EndedRun) -> None:
        """Finish the run; one that is not done counts as failed."""
        self._run.summary["status"] = run.status
        if run.digest is not None:
            self._run.summary["digest"] = run.digest
        self._run.finish(exit_code=0 if run.status == "done" else 1)


NAMED: Mapping[str, Callable[..., Tracker]] = MappingProxyType(
    {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WeightsAndBiases}
)
"""Trackers of fleetsim; each name is that of the extra, too."""


def names_and_objects(
    given: Iterable[str | Tracker | type[Tracker]],
) -> tuple[list[str], list[object]]:
    """Return the names and the objects or classes among trackers of both forms."""
    if isinstance(given, str):
        raise ScenarioError(f"trackers = {quoted(given)}: a list of trackers is wanted")
    both: list[str | object] = list(given)
    names = [one for one in both if isinstance(one, str)]
    return names, [one for one in both if not isinstance(one, str)]


def trackers_named(names: Iterable[str]) -> list[Tracker]:
    """Return the trackers of `NAME` or `NAME=PLACE`."""
    return [_made(name) for name in names]


def _made(text: str) -> Tracker:
    name, equals, place = text.partition("=")
    if name not in NAMED:
        raise ScenarioError(
            f"tracker {quoted(text)}: is none of {', '.join(NAMED)}{did_you_mean(name, NAMED)}"
        )
    if equals and not place:
        raise ScenarioError(f"tracker {quoted(text)}: names no place; write {name} or {name}=DIR")
    if place.startswith("~"):  # any other may be an address
        place = str(paths.local(place, ScenarioError))
    try:
        return NAMED[name](place) if place else NAMED[name]()
    except ModuleNotFoundError as missing:
        raise ScenarioError(
            f"tracker {quoted(text)}: needs {missing.name}; pip install 'fleetsim[{name}]'"
        ) from missing
