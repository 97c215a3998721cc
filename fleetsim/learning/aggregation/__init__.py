"""Aggregation of client updates into the next global model.

- `weighted_mean`: weighted mean of delivered models, and of their changes.
- `aggregator_kind`: base of the settings of aggregators.
- `stateless`: base of aggregators that keep nothing between rounds.
- `fedavg`: FedAvg.
- `server_optimizers`: FedAvgM, FedAdagrad, FedAdam and FedYogi.
- `asynchronous`: FedAsync and FedBuff, with staleness weights.
- `robust_updates`: updates of a round for robust aggregation.
- `coordinate_statistics`: median and trimmed mean of each coordinate.
- `krum`: Krum and multi-Krum.
- `geometric_median`: geometric median.
- `privacy`: clipped updates and noise.
- `accountant`: privacy that a run has spent.
- `secure_aggregation`: bytes and failures of secure aggregation.
- `settings`: union of the settings of all aggregators.
- `compression`: compression of uploads, their size and their decoded form.
- `update_screening`: refusal of updates that are not finite or too large.
"""
