"""GPFL: clients whose gradients point along the global direction.

- `selector`: settings, and the projections and rewards that it keeps.
- `equations`: projections, rewards and confidence bounds.
"""
