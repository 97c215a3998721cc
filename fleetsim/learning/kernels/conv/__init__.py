"""Channels-last kernel: image networks in their fastest form on a CPU.

- `channels_last`: fastest form of an image network.
- `im2col`: convolutions as one matrix product.
- `pooled_convolution`: convolutions with a max-pooling, whose gradients visit the winners alone.
- `tiles`: tiles of Winograd's algorithm.
- `winograd`: 3 x 3 convolutions by Winograd's algorithm.
- `kernel`: kernel for the trainer kind `channels-last`.
"""
