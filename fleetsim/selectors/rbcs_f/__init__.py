"""RBCS-F: short exchange times, with a guaranteed share of rounds for all clients.

- `selector`: RBCS-F.
- `equations`: Equations of RBCS-F.
"""
