"""FLOP of code of the user's own, from torch's formulas.

- `counted_operations`: operations of torch by their arithmetic: products, free ones, unknown ones.
- `operation_flop`: FLOP of a network by its layers and torch's operations.
- `backward_flop`: FLOP of the gradients of a layer, in a network with frozen weights.
- `torch_counting`: FLOP of one call of a Flower app, whatever it computes.
"""
