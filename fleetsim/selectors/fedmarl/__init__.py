"""FedMarl: agents that let probed clients continue or stop.

- `selector`: settings, probes, choices and rewards.
- `agents`: the network that all agents share, and its training.
- `round_reward`: reward of a round, from the reports of its clients.
- `observations`: states of agents, free of the fleet's scale.
- `replay`: rounds to learn from.
- `network`: steps of Adam, in torch.
- `equations`: reward, sums of values and their targets.
"""
