"""Favor: clients that a deep Q-network values most, by the models of all clients.

- `selector`: the order of a round.
- `compression`: coordinates of all models.
- `settings`: its keys.
- `agent`: network, transitions and counters, which outlast a run.
- `network`: the Q-network and its steps, in torch.
- `replay`: stored transitions.
- `equations`: axes, reward, target and choice.
"""
