"""AFL: active federated learning.

- `selector`: AFL, active federated learning: sampling of clients by the loss of their samples.
- `equations`: Equations of active federated learning (AFL).
"""
