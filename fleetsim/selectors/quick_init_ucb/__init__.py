"""Quick-Init UCB: the bandit over sets with a cold start in groups.

- `selector`: settings, and the groups of the cold start.
"""
