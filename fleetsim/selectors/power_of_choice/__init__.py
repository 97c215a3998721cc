"""Power-of-choice: the largest losses among random candidates.

- `selector`: settings, its probed and its reported variant.
"""
