"""Computation on the CPU: numerical platform, matrix products and memory.

- `processor`: Description of the machine's processor, as far as numerical libraries depend on it.
- `whole_products`: Products of byte matrices with float matrices, in whole numbers.
- `numerical_platform`: Numerical platform of a run.
- `gemm`: Choice of the library for float32 matrix products on the CPU: MKL or oneDNN.
- `workspace`: Memory that is reused between computations.
- `compiled`: Compilation of loops over numbers, for sums without a torch operation.
"""
