"""Bandits that play a set of clients for several rounds: UCB over sets, and Quick-Init UCB.

- `selector`: UCB over sets, a bandit whose arms are all sets of K clients.
- `equations`: Equations of UCB over sets of clients: arms, indices, and the quick initialisation.
- `slots`: Slots.
"""
