"""Learning of the shared network: steps of Adam on the squared error of Q_tot, in torch.

    loss = mean over a batch of (Q_tot(s, a) - y)^2

The network, the target network and the moments of Adam are numpy arrays outside of this module.
They are float32, on the processor.
"""

from collections.abc import Sequence

import numpy as np
import torch

from fleetsim.contracts import FloatArray
from fleetsim.selectors.fedmarl.equations import Floats32, Network
from fleetsim.selectors.fedmarl.observations import Transition

_MOMENTS = ("exp_avg", "exp_avg_sq")


def improved(
    network: Network,
    moments: Network,
    num_steps: int,
    batches: Sequence[tuple[Sequence[Transition], FloatArray]],
    learning_rate: float,
) -> tuple[dict[str, Floats32], dict[str, Floats32], list[float]]:
    """Return network and moments after one step of Adam for each batch, and losses before each.

    A batch is transitions and their targets y [b]. `moments` are those of Adam, `exp_avg/<name>`
    and `exp_avg_sq/<name>`, after `num_steps` earlier steps; empty before the first.

    Source: VDN (Sunehag et al., AAMAS 2018), gradient through the sum of values; Adam (Kingma, Ba,
    ICLR 2015).
    """
    layers = {name: torch.tensor(array, requires_grad=True) for name, array in network.items()}
    optimizer = torch.optim.Adam(layers.values(), lr=learning_rate)
    if num_steps:
        for name, layer in layers.items():
            optimizer.state[layer] = {
                "step": torch.tensor(float(num_steps)),
                **{moment: torch.tensor(moments[f"{moment}/{name}"]) for moment in _MOMENTS},
            }
    losses = []
    for transitions, targets in batches:
        optimizer.zero_grad()
        error = _team_values(layers, transitions) - torch.tensor(targets).float()
        loss = error.square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    after = {
        f"{moment}/{name}": optimizer.state[layer][moment].numpy().copy()
        for name, layer in layers.items()
        for moment in _MOMENTS
    }
    weights = {name: layer.detach().numpy().copy() for name, layer in layers.items()}
    return weights, after, losses


def _team_values(
    layers: dict[str, torch.Tensor], transitions: Sequence[Transition]
) -> torch.Tensor:
    """Return Q_tot of each transition [b]: all agents in one pass, then sums by transition."""
    states = torch.from_numpy(np.concatenate([each.states for each in transitions]))
    actions = torch.from_numpy(np.concatenate([each.continues for each in transitions]))
    sizes = torch.tensor([len(each.states) for each in transitions])
    owner = torch.repeat_interleave(torch.arange(len(transitions)), sizes)
    hidden = torch.relu(states @ layers["hidden/weight"].T + layers["hidden/bias"])
    values = hidden @ layers["output/weight"].T + layers["output/bias"]
    taken = values.gather(1, actions.long()[:, None])[:, 0]
    return torch.zeros(len(transitions)).index_add(0, owner, taken)
