"""Compilation of loops over numbers, for sums without a torch operation."""

from numba import njit

compiled = njit(fastmath={"contract"}, error_model="numpy")
"""Decorator that compiles a function. Products and sums may be fused, but sums keep their order."""
