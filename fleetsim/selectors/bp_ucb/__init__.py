"""BP-UCB: a bandit over clients that agree with their neighbours by belief propagation.

- `selector`: BP-UCB.
- `belief_propagation`: Belief propagation between neighbours.
- `neighbour_graph`: Graph of neighbouring clients, along whose edges they gossip.
"""
