"""Local work of one client: training, gradients, evaluation, and the memory that it needs.

- `optimizer_settings`: Settings of the clients' optimizers and of the schedules of their learning
  rate.
- `step_settings`: Settings of the steps of local training and of their loss, without torch.
- `settings`: Settings of local training, without torch.
- `optimizers`: Optimizers of local training: directions of their steps, written out.
- `sample_losses`: Losses of samples.
- `local_sgd`: Local training, gradient and evaluation of a model on one client's samples.
- `step_memory`: Memory of an SGD step of local training, measured on the real model.
- `measured_networks`: Networks whose training on phones was measured.
- `algorithms`: Algorithms of clients that replace the built-in local training.
"""
