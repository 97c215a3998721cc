"""BP-UCB: a bandit over clients that agree with their neighbours by belief propagation.

- `selector`: settings, and the course of a slot.
- `equations`: index of a client.
- `belief_propagation`: beliefs of clients from messages between neighbours.
- `neighbour_graph`: graph of neighbours, and gossip along it.
"""
