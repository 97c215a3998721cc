"""FLOP of code of the user's own, from torch's formulas.

- `counted_operations`: Operations of torch by their arithmetic, and the FLOP of one call.
- `operation_flop`: FLOP of a network of the user's own, by its layers and by torch's operations.
"""
