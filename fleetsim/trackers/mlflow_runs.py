"""Runs of MLflow: keys of the scenario as parameters, columns of the rounds table as metrics.

`mlflow ui --backend-store-uri sqlite:///mlflow.db` shows them. An experiment has the name of the
scenario. The step of a metric is the number of the round, its time the virtual time in
milliseconds. A run that continues is found by the tag `fleetsim.identity`.
"""

import os
from pathlib import Path
from typing import Any

from fleetsim.contracts import EndedRun, RoundRow, TrackedRun
from fleetsim.trackers.metrics import flat, metrics_of
from fleetsim.units import MS_PER_S

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
