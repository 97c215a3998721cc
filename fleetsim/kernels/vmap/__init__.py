"""Vectorised kernel: many clients at once by `torch.func.vmap`.

- `model_stack`: Stacked weights of many models of one network, and one step for all of them.
- `vmap_sgd`: Kernel that trains many clients at once: `local_sgd.train` by `torch.func.vmap`.
"""
