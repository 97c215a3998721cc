"""Check of the extra `mlflow`: what a run wrote, read back by the library."""

from mlflow.tracking import MlflowClient

import fleetsim

run = fleetsim.run("quickstart", {"stop.rounds": 2}, trackers=["mlflow=ml"], out="run")
client = MlflowClient("sqlite:///ml/mlflow.db", "sqlite:///ml/mlflow.db")
experiment = client.get_experiment_by_name("quickstart")
(saved,) = client.search_runs([experiment.experiment_id])
history = client.get_metric_history(saved.info.run_id, "energy_j")
assert {one.step: one.value for one in history} == dict(
    zip(run.rounds["round"], run.rounds["energy_j"], strict=True)
)
print(f"energy_j of rounds {[(one.step, one.value) for one in history]}")
