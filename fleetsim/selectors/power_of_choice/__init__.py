"""Power-of-choice: the largest losses among random candidates.

- `selector`: Power-of-choice: the largest losses among d random candidates.
"""
