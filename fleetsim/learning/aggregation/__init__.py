"""Aggregation of client updates into the next global model.

- `weighted_mean`: Bases of aggregators.
- `server_optimizers`: Server optimizers.
- `asynchronous`: Asynchronous aggregation: FedAsync and FedBuff, with weights for stale updates.
- `robust_rules`: Robust aggregation.
- `privacy`: Differential privacy of clients.
- `secure_aggregation`: Costs and failures of secure aggregation: SecAgg and SecAgg+.
- `settings`: Union of the settings of all aggregators, without torch.
- `compression`: Compression of uploads: size on the wire, and the update that the server decodes.
- `update_screening`: Refusal of updates that would ruin the global model.
"""
