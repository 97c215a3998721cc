"""AFL: active federated learning.

- `selector`: settings, and the valuations that it keeps.
- `equations`: valuations, probabilities and the draw.
"""
