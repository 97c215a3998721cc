"""Vectorised kernel: many clients at once by `torch.func.vmap`.

- `model_stack`: Stacked weights of many models of one network, and one step for all of them.
- `vmap_sgd`: Local SGD of many clients at once for any network.
- `kernel`: Kernel that trains many clients at once, for any network that torch can vectorise.
"""
