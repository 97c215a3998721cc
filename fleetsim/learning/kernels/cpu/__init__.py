"""Computation on the CPU: numerical platform, matrix products and memory.

- `processor`: description of the machine's processor.
- `whole_products`: products of byte matrices in whole numbers.
- `numerical_platform`: numerical platform of a run, and the forms of computing that it chooses.
- `gemm`: choice of the library for float32 products, MKL or oneDNN.
- `workspace`: memory that is reused between computations.
- `compiled`: compilation of loops by numba.
"""
