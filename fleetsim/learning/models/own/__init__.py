"""Networks of the user's own: any `torch.nn.Module`, from a class or function of theirs.

- `own_model`: settings of such a network, without torch.
- `building`: building of such a network, with addressed random draws.
- `operation_flop`: FLOP of a network by its layers and torch's operations.
- `backward_flop`: FLOP of the gradients of a layer, in a network with frozen weights.
- `counted_operations`: operations of torch by their arithmetic: products, free ones, unknown ones.
- `own_cost`: cost of such a network for a device.
- `synthetic_samples`: samples and labels of a data set's form, to try a network with.
- `model_fault`: faults of such a network, each one line.
- `module_checks`: checks of a network's weights and of what its forward pass does.
"""
