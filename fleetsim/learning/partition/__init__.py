"""Partitions: assignment of training samples to clients, and samples kept out of training.

- `split`: Partitions that a scenario can name, and the call that splits samples by one of them.
- `partition_kind`: Interface of the partitions that a scenario can name.
- `dirichlet`: Partitions by Dirichlet distributions.
- `plain`: Partitions at random, by natural clients, and by runs of the samples sorted by label.
- `flwr_datasets`: Partitions by the partitioners of the library flwr-datasets.
- `client_samples`: Samples of the server and of each client.
"""
