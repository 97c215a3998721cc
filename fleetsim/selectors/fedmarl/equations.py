"""Equations of FedMarl: utility, latency, traffic, reward, and values of teams of agents.

    U(x) = 10 - 20 / (1 + exp(0.35 x))                       utility of the accuracy x
    H_t = max_n H^p_n + max over a_n = 1 of (H^rest_n + H^u_n)
    B_t = sum over a_n = 1 of B_n
    r_t = w_1 (U(x_t) - U(x_(t-1))) - w_2 H_t - w_3 B_t
    Q_tot(s, a) = sum_n Q(s_n, a_n)                          value decomposition (VDN)
    y_t = r_t + gamma max_a Q'_tot(s_(t+1), a)               its target; r_t after the last round

H^p is the seconds of a client's probe, H^rest those of the epochs that are left, H^u those of its
upload, and B_n the bytes of its upload. a_n = 1 if client n continues, 0 if it stops. Q' is the
network of some rounds ago.

Choices that the sources leave open:

* x is the accuracy as a fraction, where U is almost linear: from 0 to 1.73. In percent, as in the
  one code base that has U, it is within 2 % of its limit from 15 % on.
* H_t and B_t enter the reward in units of the scenario (`relative_latency`, `relative_traffic`), so
  that agents suit fleets of any speed and models of any size.
* The maximum in y_t is over the actions that the server allows: at least one client continues, at
  most as many as are wanted (`joint_action`). As Q_tot is a sum, this takes the largest differences
  Q(s_n, 1) - Q(s_n, 0).

Source: Zhang, Lin, Zhang, "A multi-agent reinforcement learning approach for efficient client
selection in federated learning", AAAI 2022, arXiv 2201.02932, of which only the abstract was at
hand. Secondary source of the equations: third-party notes on the paper; U is that of another code
base of federated learning (FedLPS), its attribution to FedMarl is from memory. VDN: Sunehag et al.,
"Value-decomposition networks for cooperative multi-agent learning", AAMAS 2018.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fleetsim.contracts import BoolArray, FloatArray
from fleetsim.selectors.argument_checks import require_lengths
from fleetsim.selectors.tie_breaking import best

Floats32 = npt.NDArray[np.float32]
"""States [n, 6], weights and values of agents."""
Network = Mapping[str, Floats32]
"""Two-layer perceptron: `hidden/weight` [h, 6], `hidden/bias` [h], `output/weight` [2, h] and
`output/bias` [2]."""


def utility(accuracy: float) -> float:
    """Return U(x) of an accuracy in [0, 1].

    >>> utility(0.0)
    0.0

    Source: FedMarl (AAAI 2022), U of the reward; secondary source.
    """
    return float(10.0 - 20.0 / (1.0 + np.exp(0.35 * accuracy)))


def processing_latency_s(
    probe_s: FloatArray, rest_s: FloatArray, upload_s: FloatArray, continues: BoolArray
) -> float:
    """Return H_t: seconds of the longest probe, then of the longest rest and upload.

    Seconds H^p, H^rest and H^u are of each client that was asked [n]; the last two are not used for
    clients that stop.

    >>> two = np.array([2.0, 3.0]), np.array([4.0, 9.0]), np.array([1.0, 9.0])
    >>> processing_latency_s(*two, np.array([True, False]))
    8.0

    Source: FedMarl (AAAI 2022), H_t; secondary source.
    """
    require_lengths(probe_s.size, rest_s=rest_s, upload_s=upload_s, continues=continues)
    after_s = (rest_s + upload_s)[continues]
    return float(probe_s.max(initial=0.0) + after_s.max(initial=0.0))


def traffic_byte(upload_byte: FloatArray, continues: BoolArray) -> float:
    """Return B_t: bytes of the uploads of clients that continue.

    >>> traffic_byte(np.array([100.0, 50.0, 7.0]), np.array([True, False, True]))
    107.0

    Source: FedMarl (AAAI 2022), B_t; secondary source.
    """
    require_lengths(upload_byte.size, continues=continues)
    return float(upload_byte[continues].sum())


def relative_latency(latency_s: float, longest_probe_s: float, epochs: int) -> float:
    """Return H_t in units of the longest probe times the epochs; 0 without a probe.

    A probe is the download and one epoch. So about 1 is a round in which the slowest continues.

    >>> relative_latency(8.0, 2.0, 5)
    0.8

    Source: fleetsim's unit of H_t of FedMarl (AAAI 2022).
    """
    return latency_s / (epochs * longest_probe_s) if longest_probe_s > 0.0 else 0.0


def relative_traffic(traffic: float, payload_byte: int, cohort: int) -> float:
    """Return B_t in units of one model from each client of the cohort.

    >>> relative_traffic(300.0, 100, 4)
    0.75

    Source: fleetsim's unit of B_t of FedMarl (AAAI 2022).
    """
    return traffic / (payload_byte * cohort) if payload_byte > 0 else 0.0


def reward(
    accuracy: float,
    accuracy_before: float,
    latency: float,
    traffic: float,
    *,
    accuracy_weight: float,
    latency_weight: float,
    traffic_weight: float,
) -> float:
    """Return r_t, the reward of all agents for a round.

    Accuracies in [0, 1] are on samples for selectors. Latency H_t and traffic B_t are in any unit,
    per which w_2 and w_3 are; w_1 is the weight of accuracy.

    Source: FedMarl (AAAI 2022), r_t; secondary source.
    """
    gain = utility(accuracy) - utility(accuracy_before)
    return accuracy_weight * gain - latency_weight * latency - traffic_weight * traffic


def action_values(network: Network, states: Floats32) -> Floats32:
    """Return Q(s_n, stop) and Q(s_n, continue) of each agent [n, 2], by the network they share.

    Source: FedMarl (AAAI 2022), two-layer perceptron of an agent; secondary source.
    """
    hidden = np.maximum(states @ network["hidden/weight"].T + network["hidden/bias"], 0.0)
    values: Floats32 = hidden @ network["output/weight"].T + network["output/bias"]
    return values


def advantages(values: Floats32) -> FloatArray:
    """Return Q(s_n, continue) - Q(s_n, stop) of each agent [n].

    Source: FedMarl (AAAI 2022), choice of an agent; secondary source.
    """
    return values[:, 1].astype(np.float64) - values[:, 0]


def joint_action(advantage: FloatArray, wanted: int, keys: FloatArray) -> BoolArray:
    """Return the clients that continue [n]: advantages of at least 0, the largest where too many.

    If all are below 0 the largest continues. So an agent that prefers neither lets its client
    continue.

    The advantage is Q(s_n, continue) - Q(s_n, stop) [n]; among equal ones the smaller key goes
    first [n]. At most `wanted` >= 1 clients continue.

    >>> joint_action(np.array([0.5, -0.1, 0.7, 0.2]), 2, np.arange(4.0)).tolist()
    [True, False, True, False]
    >>> joint_action(np.array([-0.5, -0.1]), 2, np.arange(2.0)).tolist()
    [False, True]

    Source: FedMarl (AAAI 2022), choice of the agents; the limits are fleetsim's.
    """
    require_lengths(advantage.size, keys=keys)
    num = min(wanted, max(1, int((advantage >= 0.0).sum())))
    continues = np.zeros(advantage.size, dtype=np.bool_)
    continues[best(advantage, num, keys)] = True
    return continues


def team_value(values: Floats32, continues: BoolArray) -> float:
    """Return Q_tot, the sum of the agents' values of their actions.

    >>> team_value(np.array([[1.0, 2.0], [4.0, 8.0]], np.float32), np.array([True, False]))
    6.0

    Source: VDN (Sunehag et al., AAMAS 2018), sum of the agents' values.
    """
    require_lengths(values.shape[0], continues=continues)
    return float(np.where(continues, values[:, 1], values[:, 0]).sum(dtype=np.float64))


def best_team_value(values: Floats32, wanted: int) -> float:
    """Return the largest Q_tot of all actions that `joint_action` may return.

    Values are Q of each agent, at least one [n, 2].

    >>> best_team_value(np.array([[1.0, 2.0], [4.0, 8.0]], np.float32), 1)
    9.0

    Source: VDN (Sunehag et al., AAMAS 2018), maximum of the sum; the limits are fleetsim's.
    """
    gains = np.sort(advantages(values))[::-1][:wanted]
    # The first continues in any case.
    gain = gains[0] + np.maximum(gains[1:], 0.0).sum()
    return float(values[:, 0].sum(dtype=np.float64) + gain)


def team_target(reward_: float, next_values: Floats32, next_wanted: int, discount: float) -> float:
    """Return y_t, the target of Q_tot of a round; the reward alone after the last round.

    Next values are Q' of the agents of the next round [m, 2], none after the last round.

    Source: VDN (Sunehag et al., AAMAS 2018), target of Q-learning with a sum of values.
    """
    if next_values.shape[0] == 0:
        return reward_
    return reward_ + discount * best_team_value(next_values, next_wanted)


def exploration_chance(num_choices: int, first: float, last: float, num_rounds: int) -> float:
    """Return the chance that an agent's action is random: a line from `first` to `last`.

    >>> [exploration_chance(num, 1.0, 0.5, 4) for num in (0, 2, 4, 9)]
    [1.0, 0.75, 0.5, 0.5]

    Source: fleetsim's schedule of epsilon-greedy exploration for FedMarl (AAAI 2022).
    """
    share = min(1.0, num_choices / num_rounds)
    return first + share * (last - first)
