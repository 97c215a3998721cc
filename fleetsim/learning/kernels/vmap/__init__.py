"""Vectorised kernel: many clients at once by `torch.func.vmap`.

- `model_stack`: stacked weights of many models, and their SGD step.
- `vmap_sgd`: division of trainings into stacks, and training of a stack.
- `kernel`: kernel for the trainer kind `vectorised`.
"""
