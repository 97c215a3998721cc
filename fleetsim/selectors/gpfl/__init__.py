"""GPFL: clients whose gradients point along the global direction.

- `selector`: GPFL.
- `equations`: Equations of GPFL: gradient projections, rewards, and confidence bounds.
"""
