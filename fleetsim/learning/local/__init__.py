"""Local work of one client: training, gradients, evaluation, and the memory that it needs.

- `learning_rate_decay`: decay of the learning rate over rounds.
- `step_schedule`: schedule of the learning rate over the steps of a task.
- `optimizer_settings`: settings of the optimizers.
- `loss_settings`: settings of the loss that clients minimise.
- `step_settings`: settings of the steps of a training.
- `settings`: settings of local training, with the algorithm of clients.
- `augmentation_settings`: settings of the augmentation of training samples.
- `augmentation`: flip, crop, noise and mixup of the samples of a step.
- `optimizers`: directions of the optimizers' steps, clipping of gradients.
- `sample_losses`: losses of samples: the cross-entropy, a network's own, or the scenario's.
- `focal_loss`: focal loss.
- `local_sgd`: local training, gradient and evaluation on one client's samples.
- `step_memory`: memory of an SGD step, measured on the real model.
- `measured_networks`: networks whose training on phones was measured.
"""
