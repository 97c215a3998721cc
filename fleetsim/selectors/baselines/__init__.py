"""Selectors to compare with: random, round-robin and fixed.

- `uniform`: random clients, in equal or in sample-weighted shares.
- `round_robin`: all clients in turn.
- `fixed`: always the same clients.
- `client_sets`: draw and order of predefined sets of clients.
"""
