"""FedMarl: agents that let probed clients continue or stop.

- `selector`: settings, probes, choices and rewards.
- `agents`: the network that all agents share, and its training.
- `round_reward`: reward of a round, from the reports of its clients.
- `observations`: states of agents, free of the fleet's scale.
- `replay`: rounds to learn from.
- `network`: steps of Adam, in torch.
- `equations`: reward, sums of values and their targets.
"""

from fleetsim.selectors.fedmarl.equations import (
    action_values,
    advantages,
    best_team_value,
    exploration_chance,
    joint_action,
    processing_latency_s,
    relative_latency,
    relative_traffic,
    reward,
    team_target,
    team_value,
    traffic_byte,
    utility,
)
from fleetsim.selectors.fedmarl.selector import FedMarlSelector, FedMarlSettings

__all__ = [
    "FedMarlSelector",
    "FedMarlSettings",
    "action_values",
    "advantages",
    "best_team_value",
    "exploration_chance",
    "joint_action",
    "processing_latency_s",
    "relative_latency",
    "relative_traffic",
    "reward",
    "team_target",
    "team_value",
    "traffic_byte",
    "utility",
]
