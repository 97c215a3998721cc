"""Q-network of Favor: two linear layers with rectified units, and its learning.

The network that learns and the target network have the same shape: (N + 1) d inputs, the hidden
units, one output for each client. A step minimises the mean squared difference between Q(s, a) and
the target of `equations.double_q_target` over a batch, by RMSprop as torch has it: decay 0.99 and
1e-8 beside the root, without momentum.

A network that only chooses is stored once; one that learns four times, with the target network, the
moments and the gradients.
"""

import math

import numpy as np
import torch

from fleetsim.contracts import BoolArray, FloatArray, State
from fleetsim.selectors.favor.equations import double_q_target
from fleetsim.selectors.favor.replay import Coordinates, SampledTransitions

_LAYERS = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")
_DECAY = 0.99
_ROOT_FLOOR = 1e-8


class QNetwork:
    """Network that values each client in a state, and its copies for learning."""

    def __init__(self, num_inputs: int, num_hidden: int, num_actions: int, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._online: dict[str, torch.Tensor] = {}
        for layer, fan_in, fan_out in (
            ("hidden", num_inputs, num_hidden),
            ("output", num_hidden, num_actions),
        ):
            # Uniform within one over the root of a unit's inputs, as linear layers of torch begin.
            bound = 1.0 / math.sqrt(fan_in)
            for part, shape in (("weight", (fan_out, fan_in)), ("bias", (fan_out,))):
                drawn = torch.empty(shape).uniform_(-bound, bound, generator=generator)
                self._online[f"{layer}.{part}"] = drawn
        self._target: dict[str, torch.Tensor] = {}
        self._moments: dict[str, torch.Tensor] = {}

    def begin_learning(self) -> None:
        """Make the target network, a copy, and the moments of RMSprop."""
        self._target = {name: layer.clone() for name, layer in self._online.items()}
        self._moments = {name: torch.zeros_like(layer) for name, layer in self._online.items()}

    def values(self, state: Coordinates) -> FloatArray:
        """Return Q of each client in a state [N + 1, d] -> [N]."""
        with torch.no_grad():
            values = _forward(self._online, torch.from_numpy(state.reshape(1, -1)))
        result: FloatArray = values[0].numpy().astype(np.float64)
        return result

    def target(self, state: Coordinates, *, reward: float, is_last: bool, discount: float) -> float:
        """Return the target y of a reward that leads to a state [N + 1, d]."""
        rewards, are_last = np.array([reward]), np.array([is_last])
        return float(self._targets(state.reshape(1, -1), rewards, are_last, discount)[0])

    def learn(self, batch: SampledTransitions, *, discount: float, learning_rate: float) -> float:
        """Take one step on a batch; return the mean squared difference before it."""
        target = self._targets(batch.next_states, batch.rewards, batch.is_last, discount)
        # Leaves of the graph that share the memory of the layers.
        leaves = {name: layer.detach().requires_grad_() for name, layer in self._online.items()}
        values = _forward(leaves, torch.from_numpy(batch.states))
        taken = values.gather(1, torch.from_numpy(batch.actions)[:, None])[:, 0]
        loss = (taken - torch.from_numpy(target).float()).square().mean()
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        for name, gradient in zip(leaves, gradients, strict=True):
            moment = self._moments[name]
            moment.mul_(_DECAY).addcmul_(gradient, gradient, value=1.0 - _DECAY)
            root = moment.sqrt().add_(_ROOT_FLOOR)
            self._online[name].addcdiv_(gradient, root, value=-learning_rate)
        return float(loss.detach())

    def _targets(
        self, next_states: Coordinates, rewards: FloatArray, is_last: BoolArray, discount: float
    ) -> FloatArray:
        """Return the target y of rewards that lead to states [B, (N + 1) d] -> [B]."""
        with torch.no_grad():
            values, target_values = (
                _forward(layers, torch.from_numpy(next_states)).double().numpy()
                for layers in (self._online, self._target)
            )
        return double_q_target(rewards, values, target_values, is_last, discount)

    def update_target(self) -> None:
        """Copy the network that learns into the target network."""
        for name, layer in self._online.items():
            self._target[name].copy_(layer)

    def weights(self) -> State:
        """Return copies of the layers of the network that learns, by name."""
        return {name: layer.numpy().copy() for name, layer in self._online.items()}

    def use(self, weights: State) -> None:
        """Replace the network, and the target network if there is one, by these layers."""
        self._online = _tensors(weights, "")
        if self._target:
            self._target = {name: layer.clone() for name, layer in self._online.items()}

    def state(self) -> State:
        """Return copies of all networks and moments."""
        copies = {"online": self._online, "target": self._target, "moments": self._moments}
        return {
            f"network/{copy}/{name}": layer.numpy().copy()
            for copy, layers in copies.items()
            for name, layer in layers.items()
        }

    def restore(self, state: State) -> None:
        """Replace everything by a copy of what `state` returned."""
        self._online = _tensors(state, "network/online/")
        if "network/target/hidden.bias" in state:
            self._target = _tensors(state, "network/target/")
            self._moments = _tensors(state, "network/moments/")


def _forward(layers: dict[str, torch.Tensor], states: torch.Tensor) -> torch.Tensor:
    """Return Q of each client in states [B, I] -> [B, N]."""
    hidden = torch.addmm(layers["hidden.bias"], states, layers["hidden.weight"].T).relu()
    return torch.addmm(layers["output.bias"], hidden, layers["output.weight"].T)


def _tensors(state: State, prefix: str) -> dict[str, torch.Tensor]:
    return {
        name: torch.from_numpy(np.array(state[f"{prefix}{name}"], dtype=np.float32))
        for name in _LAYERS
    }
