"""Aggregation of client updates into the next global model.

- `weighted_mean`: weighted mean of delivered models, and of their changes.
- `stateless`: base of aggregators that keep nothing between rounds.
- `fedavg`: FedAvg.
- `server_optimizers`: FedAvgM, FedAdagrad, FedAdam and FedYogi.
- `asynchronous`: FedAsync and FedBuff, with staleness weights.
- `settings`: union of the settings of all aggregators.
- `compression`: compression of uploads, their size and their decoded form.
- `update_screening`: refusal of updates that are not finite or too large.
"""
