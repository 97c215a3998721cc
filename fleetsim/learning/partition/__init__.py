"""Partitions: assignment of training samples to clients, and samples kept out of training.

- `split`: partitions that a scenario can name, and the call that splits samples.
- `partition_kind`: interface of a partition.
- `iid`: random split into equal parts.
- `dirichlet`: shares of each label drawn from a Dirichlet distribution.
- `shards`: equal shards of the samples sorted by label.
- `natural`: natural clients of a data set.
- `client_dirichlet`: mix of labels of each client drawn from a Dirichlet distribution.
- `one_class`: one label per client.
- `partly_iid`: all labels for some clients, few for the others.
- `flwr_datasets`: partitioners of the library flwr-datasets.
- `membership`: samples of each client, their labels, and draws by label.
- `holdout`: samples that the server and the clients keep out of training.
- `client_samples`: samples of the server and of each client, for each use.
- `shortages`: requirements that a data set cannot meet, found without reading it.
"""
