"""Algorithms of clients that replace the built-in local training.

- `settings`: Settings of the algorithms of clients that a scenario can name, without torch.
- `published`: Published algorithms of clients: SCAFFOLD, FedDyn and Ditto.
- `client_data`: One task of an algorithm of clients: its data, its steps, and its checked result.
"""
