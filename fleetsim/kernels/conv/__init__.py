"""Channels-last kernel: image networks in their fastest form on a CPU.

- `channels_last`: Kernel that trains image networks one client at a time.
- `im2col`: Convolutions with many weights on small maps, as one matrix product.
- `pooled_convolution`: Convolutions followed by a max-pooling.
- `tiles`: Tiles of the output map that Winograd's algorithm computes at once, see `winograd`.
- `winograd`: Convolutions of 3 x 3 by Winograd's algorithm F(4 x 4, 3 x 3).
"""
