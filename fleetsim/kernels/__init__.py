"""Kernels: computation of clients' jobs in one process.

- `cpu`: Computation on the CPU: numerical platform, matrix products and memory.
- `batches`: Schedule of the batches of several clients that train in one stack.
- `device_samples`: Samples and initial models in the memory of the torch device that trains.
- `base`: Serial reference kernel, the base class of all kernels.
- `access_kernel`: Serial kernel for samples that the user's transform makes anew at each access.
- `stacked`: Stacked kernel: hand-written SGD steps for many small networks at once.
- `vmap`: Vectorised kernel: many clients at once by `torch.func.vmap`.
- `conv`: Channels-last kernel: image networks in their fastest form on a CPU.
- `user_training`: Kernel of clients' own training, one client at a time.
"""
