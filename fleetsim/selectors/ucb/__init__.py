"""UCB over sets: a bandit whose arms are all sets of K clients.

- `selector`: settings, and the means and plays that it keeps.
"""
