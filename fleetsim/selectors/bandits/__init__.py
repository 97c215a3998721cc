"""Parts of the bandits that play a set of clients for several rounds.

- `equations`: arms, indices, rewards and the quick initialisation.
- `slots`: rounds with the same clients, evaluated as one.
- `rehearsals`: slots played in probes, whose models are discarded.
"""
