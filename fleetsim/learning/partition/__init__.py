"""Partitions: assignment of training samples to clients, and samples kept out of training.

- `split`: Partitions that a scenario can name, and the call that splits samples by one of them.
- `partition_kind`: Interface of the partitions that a scenario can name.
- `iid`: Independent and identically distributed partition: a random split into equal parts.
- `dirichlet`: Partition in which each label's samples are shared by a symmetric Dirichlet
  distribution.
- `shards`: Partition into equal shards of the samples sorted by label.
- `natural`: Partition by the natural clients of a data set, such as MNIST's writers.
- `client_dirichlet`: Partition in which each client's mix of labels is drawn.
- `one_class`: Partition in which every client has samples of a single label.
- `partly_iid`: Partition in which some clients have samples of all labels and the others of few.
- `flwr_datasets`: Partitions by the partitioners of the library flwr-datasets.
- `membership`: Samples of each client, their labels.
- `holdout`: Training samples that are kept out of training: by the server, and by each client.
- `client_samples`: Samples of the server and of each client.
"""
