"""Trackers: what follows a run elsewhere than in its folder.

- `metrics`: Numbers of a round and keys of a scenario in the flat form that trackers show.
- `named`: Trackers by name, such as `tensorboard` or `tensorboard=logs`.
- `following`: Calls of trackers during a run, behind its recorder.
- `tensorboard_events`: Event files of TensorBoard: a scalar for each column of the rounds table.
- `mlflow_runs`: Runs of MLflow.
- `wandb_runs`: Runs of Weights & Biases.
"""
