"""Parts of the bandits that play a set of clients for several rounds.

- `equations`: Equations of UCB over sets of clients: arms, indices, and the quick initialisation.
- `slots`: Slots.
"""
