"""Selectors to compare with: random, round-robin and fixed.

- `uniform`: Random selection: K of the available clients, uniformly or in proportion to their data.
- `round_robin`: Round-robin selection: all clients in turn.
- `fixed`: Fixed selection: always the same named clients.
"""
