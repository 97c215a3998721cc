"""Aggregation of client updates into the next global model.

- `weighted_mean`: Bases of aggregators.
- `server_optimizers`: Server optimizers.
- `asynchronous`: Asynchronous aggregation: FedAsync and FedBuff, with weights for stale updates.
- `robust_rules`: Robust aggregation.
- `privacy`: Privacy of clients.
- `uploads`: Uploads.
- `settings`: Union of the settings of all aggregators, without torch.
"""
