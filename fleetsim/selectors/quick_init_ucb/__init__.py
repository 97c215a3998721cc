"""Quick-Init UCB: the bandit over sets with a cold start in groups.

- `selector`: Quick-Init UCB.
"""
