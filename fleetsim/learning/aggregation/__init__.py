"""Aggregation of client updates into the next global model.

- `weighted_mean`: Weighted mean of delivered models, which is FedAvg, or of their changes.
- `aggregator_kind`: Base of the settings of aggregators.
- `server_optimizers`: Server optimizers.
- `asynchronous`: Asynchronous aggregation: FedAsync and FedBuff, with weights for stale updates.
- `robust_updates`: Updates of a round for robust aggregation.
- `coordinate_statistics`: Coordinate-wise median and trimmed mean (Yin et al. 2018).
- `krum`: Krum and multi-Krum: the updates that are closest to others (Blanchard et al. 2017).
- `geometric_median`: Geometric median of updates by the smoothed Weiszfeld algorithm (RFA.
- `privacy`: Differential privacy of clients: clipped updates and Gaussian noise (DP-FedAvg).
- `accountant`: Accountant of differential privacy: epsilon after each round.
- `secure_aggregation`: Costs and failures of secure aggregation: SecAgg and SecAgg+.
- `settings`: Union of the settings of all aggregators, without torch.
- `compression`: Compression of uploads: size on the wire, and the update that the server decodes.
- `update_screening`: Refusal of updates that would ruin the global model.
"""
