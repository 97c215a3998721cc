"""Learning task of a scenario: data, partition, model, local training and aggregation.

- `global_generators`: Global random generators of Python.
- `torch_settings`: torch's settings of a process: those of a run, and the caller's around it.
- `data`: Data sets: settings, loading, standardisation, and sizes known in advance.
- `partition`: Partitions.
- `models`: Models: networks that a scenario can name, their weights as one vector, and their cost.
- `local`: Local work of one client: training, gradients, evaluation, and the memory that it needs.
- `aggregation`: Aggregation of client updates into the next global model.
"""
