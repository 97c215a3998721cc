"""Runs of Weights & Biases: the scenario as configuration, columns of the rounds table as history.

The mode (`online`, `offline`, `disabled`) is that of W&B: the environment variable WANDB_MODE, or
the argument. Offline, files stay in `FOLDER/wandb` until `wandb sync` sends them. A run that
continues has the same id, so that W&B joins the parts.
"""

from pathlib import Path
from typing import Any, Literal

from fleetsim.contracts import EndedRun, RoundRow, TrackedRun
from fleetsim.trackers.metrics import flat, metrics_of


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
