"""Learning task of a scenario: data, partition, model, local training and aggregation.

- `data`: data sets.
- `partition`: assignment of training samples to clients.
- `models`: networks, flat vector of their weights, and cost.
- `local`: local SGD and its settings.
- `kernels`: computation of jobs in one process.
- `training`: trainers, worker pool, and choice of the trainer.
- `aggregation`: means, server optimizers, compression and screening of updates.
"""
