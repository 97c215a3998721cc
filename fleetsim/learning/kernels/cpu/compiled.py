"""How loops over numbers are compiled, where torch has no operation for them."""

from __future__ import annotations

from numba import njit

compiled = njit(fastmath={"contract"}, error_model="numpy")
"""Products and sums may be fused, but nothing changes places: results follow from the inputs."""
