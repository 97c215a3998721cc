"""Local work of one client: SGD, gradients, evaluation, and the memory that it needs.

- `learning_rate_decay`: decay of the learning rate over rounds.
- `settings`: settings of local training.
- `local_sgd`: local SGD, gradient and evaluation on one client's samples.
- `step_memory`: memory of an SGD step, measured on the real model.
- `measured_networks`: networks whose training on phones was measured.
"""
