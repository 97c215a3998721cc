"""Partitions: assignment of training samples to clients, and samples kept out of training.

- `partition_kind`: Interface of the partitions that a scenario can name.
- `dirichlet`: Partitions by Dirichlet distributions.
- `plain`: Partitions at random, by natural clients, and by runs of the samples sorted by label.
- `flwr_datasets`: Partitions by the partitioners of the library flwr-datasets.
- `client_samples`: Partitions that a scenario can name.
"""
