"""UCB over sets: a bandit whose arms are all sets of K clients.

- `selector`: UCB over sets: a bandit whose arms are all sets of K clients.
"""
