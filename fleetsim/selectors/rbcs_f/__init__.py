"""RBCS-F: short exchange times, with a guaranteed share of rounds for all clients.

- `selector`: settings, and the queues and regressions that it keeps.
- `equations`: queues, estimates of exchange times, and the choice.
"""
