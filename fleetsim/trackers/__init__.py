"""Trackers: what follows a run elsewhere than in its folder.

- `metrics`: numbers of a round and keys of a scenario as trackers show them.
- `named`: trackers by name, such as `tensorboard=logs`.
- `following`: calls of trackers during a run.
- `tensorboard_events`: event files of TensorBoard.
- `mlflow_runs`: runs of MLflow.
- `wandb_runs`: runs of Weights & Biases.
"""
