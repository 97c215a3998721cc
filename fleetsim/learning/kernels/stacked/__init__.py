"""Stacked kernel: hand-written SGD steps for many small networks at once.

- `sgd_step`: SGD step of one layer's weights, for many models.
- `score_gradients`: gradients of the losses by the class scores.
- `linear_chain`: stack of chains of linear layers with ReLU.
- `client_products`: products of one client's samples, for the dual form.
- `dual_chain`: stack of chains with the first layer in its dual form.
- `stacked_sgd`: division of trainings into stacks, and training of a stack.
- `kernel`: kernel for the trainer kind `stacked`.
"""
