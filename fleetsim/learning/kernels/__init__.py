"""Kernels: computation of clients' jobs in one process.

- `cpu`: numerical platform, matrix products and memory on the CPU.
- `batches`: schedule of the batches of several clients in one stack.
- `device_samples`: samples in the memory of a torch device.
- `initial_models`: initial models of many clients on a device.
- `base`: serial reference kernel, base class of the others.
- `access_kernel`: serial kernel for samples that are made at each access.
- `own_training`: kernel of clients' own training.
- `stacked`: kernel for many small networks at once, with hand-written steps.
- `vmap`: kernel for many networks at once, vectorised by torch.
- `conv`: kernel for image networks, one client at a time.
"""
