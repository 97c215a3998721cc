"""Learning task of a scenario: data, partition, model, local training and aggregation.

- `global_generators`: global random generators around code of the user's own.
- `torch_settings`: torch's settings of a run, and the caller's around it.
- `data`: data sets.
- `partition`: assignment of training samples to clients.
- `models`: networks, flat vector of their weights, and cost.
- `local`: local training and its settings.
- `algorithms`: algorithms of clients that replace the built-in local training.
- `kernels`: computation of jobs in one process.
- `training`: trainers, worker pool, and choice of the trainer.
- `aggregation`: means, server optimizers, compression and screening of updates.
"""
