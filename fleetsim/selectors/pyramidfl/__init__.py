"""PyramidFL: Oort's clients, with individual work and uploads.

- `selector`: settings, and the times and updates that it keeps.
- `equations`: ranks, shares of updates, and extra work.
"""
