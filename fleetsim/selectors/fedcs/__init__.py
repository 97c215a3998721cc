"""FedCS: as many clients as fit into a round.

- `selector`: settings, and the request for resources.
- `equations`: length of a round, and greedy packing.
"""
